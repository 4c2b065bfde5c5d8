/* Frames made ahead, on a thread of their own: no move and no allocation waits until memory is pinned. It begins when
 * memory is about to be more than fits; what fits pins nothing, unless that is asked for. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/vmm/memory.h"
#include "driver/session.h"

enum { NICE = 10, STOCK_BYTES = 128 << 20 };
enum { NEARLY_ALL = 4 }; /* all but one in so many: soon there may be more than fits */

/* Without being asked: the budget may have become smaller, or the driver may have memory again. */
#define LOOK_NS 1000000000ull
/* While frames are beyond it still: pages are just leaving them. */
#define BEYOND_NS 1000000ull
/* Between steps that only the next suspend needs: the program's calls find the driver free nine tenths of the time. */
#define PIN_NS 20000000ull

struct frame_prefetcher {
    struct pager *device;
    struct lock lock;
    struct condition work;
    bool asked, stopping;
    struct pager_worker worker;
};

static void frames_ask(void *data) {
    struct frame_prefetcher *m = data;
    lock_take(&m->lock);
    m->asked = true;
    condition_tell_one(&m->work);
    lock_drop(&m->lock);
}

/* False: the end came. */
static bool wait(struct frame_prefetcher *m, uint64_t ns) {
    uint64_t until_ns = clock_ns() + ns;
    lock_take(&m->lock);
    while (!m->asked && !m->stopping && clock_ns() < until_ns)
        condition_wait(&m->work, &m->lock, until_ns);
    m->asked = false;
    bool goes_on = !m->stopping;
    lock_drop(&m->lock);
    return goes_on;
}

/* While nothing moves the device's frames are made as they are needed: the program may want the room for itself. False:
 * there are more than there may be, and pages leave them, or are mapped at some that were given back. */
static bool follow_budget(struct pager *d) {
    struct vmm *v = vmm_in(d);
    pager_lock(d);
    bool moves = pager_moves(d);
    uint64_t on_host = vmm_files(d)             ? 0
                       : d->admission.turn.pins ? d->memory.bytes
                                                : UINT64_MAX; /* no page has two frames there */
    uint64_t all = vmm_frames_allowed(d), most = moves ? all : 0;
    uint64_t most_leave = d->budget.bytes; /* at a time */
    pager_unlock(d);
    uint32_t stock = (uint32_t)((most_leave < STOCK_BYTES ? most_leave : STOCK_BYTES) / page_bytes);
    frames_keep(&v->pool[VMM_DEVICE].frames, stock, most, frames_ask, v->prefetcher);
    frames_keep(&v->pool[VMM_HOST].frames, stock, on_host, frames_ask, v->prefetcher);
    vmm_give_back(d, all);
    pager_lock(d);
    vmm_placeholder_look(d);
    pager_unlock(d);
    return !moves || vmm_occupied(d) <= all;
}

/* Some of the host memory that all pages together need once they leave. False: it is there, or nobody asks for it. */
static bool pin_some(struct pager *d) {
    pager_lock(d);
    uint64_t bytes = d->admission.turn.pins && !vmm_files(d) ? d->memory.bytes : 0;
    pager_unlock(d);
    return frames_make_ahead(&vmm_in(d)->pool[VMM_HOST].frames, bytes);
}

/* What there should be is another thing by now, or nothing. */
static bool is_asked(struct frame_prefetcher *m) {
    lock_take(&m->lock);
    bool asked = m->asked || m->stopping;
    lock_drop(&m->lock);
    return asked;
}

static void *make(void *data) {
    struct frame_prefetcher *m = data;
    struct vmm *v = vmm_in(m->device);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    bool within, pins;
    do {
        bool more;
        within = follow_budget(m->device);
        do { /* some, however often it is asked */
            more = frames_stock(&v->pool[VMM_DEVICE].frames);
            more = frames_stock(&v->pool[VMM_HOST].frames) || more;
        } while (more && !is_asked(m));
        pins = pin_some(m->device);
    } while (wait(m, !within ? BEYOND_NS : pins ? PIN_NS : LOOK_NS));
    return NULL;
}

/* Sees from now on that there are idle frames. Called any number of times, from one thread at a time. */
static void frame_prefetcher_start(struct pager *d) {
    struct frame_prefetcher *m = vmm_in(d)->prefetcher ? NULL : calloc(1, sizeof *m);
    if (!m)
        return;
    m->device = d;
    vmm_in(d)->prefetcher = m;
    session_stops_first();
    pager_worker_start(&m->worker, "ulms-frames", make, m);
}

void frame_prefetcher_follow(struct pager *d, uint64_t bytes) {
    if (d->admission.turn.pins || d->memory.bytes + bytes > d->budget.bytes / NEARLY_ALL * (NEARLY_ALL - 1))
        frame_prefetcher_start(d);
}

void vmm_granted(int32_t device) {
    struct pager *d = pager_at(device);
    pager_granted(device);
    if (!d)
        return;
    pager_lock(d);
    if (vmm_in(d))
        frame_prefetcher_start(d);
    struct frame_prefetcher *m = vmm_in(d) ? vmm_in(d)->prefetcher : NULL;
    pager_unlock(d);
    if (m)
        frames_ask(m);
}

void frame_prefetchers_stop(void) {
    uint64_t until = clock_ns() + PAGER_MOVED_NS;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        struct frame_prefetcher *m = vmm_in(d) ? vmm_in(d)->prefetcher : NULL;
        pager_unlock(d);
        if (!m)
            continue;
        lock_take(&m->lock);
        __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
        condition_tell_one(&m->work);
        lock_drop(&m->lock);
        pager_worker_join(&m->worker, until);
    }
}
