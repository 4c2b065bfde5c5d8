/* Frames made ahead, on a thread of their own: no move and no allocation waits until memory is pinned. It begins when
 * memory is about to be more than fits; what fits pins nothing. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/pager.h"
#include "backend/vmm.h"
#include "base/thread.h"
#include "interpose/session.h"

enum { NICE = 10, STOCK_BYTES = 128 << 20 };

/* Without being asked: the budget may have become smaller, or the driver may have memory again. */
#define LOOK_NS 1000000000ull

struct vmm_maker {
    struct pager *device;
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool asked, stopping;
    struct pager_worker worker;
};

static void ask(void *data) {
    struct vmm_maker *m = data;
    pthread_mutex_lock(&m->lock);
    m->asked = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
}

/* False: the end came. */
static bool wait(struct vmm_maker *m) {
    uint64_t until_ns = clock_ns() + LOOK_NS;
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_mutex_lock(&m->lock);
    while (!m->asked && !m->stopping && pthread_cond_timedwait(&m->work, &m->lock, &until) == 0)
        ;
    m->asked = false;
    bool goes_on = !m->stopping;
    pthread_mutex_unlock(&m->lock);
    return goes_on;
}

/* The first page from *at on that is stale at a frame which was given back, and does not move; moves *at behind it. One
 * at a time, so that nobody waits for long. False: there is none. */
static bool map_next_void(struct pager *d, addr_t *at) {
    bool there = false;
    pager_lock(d);
    for (size_t i = 0; i < d->ranges.count && !there; i++) {
        addr_t start = d->ranges.at[i]->start;
        struct vmm_range *r = start >= *at ? vmm_range_find(d->vmm, start) : NULL;
        size_t page = r ? (start - r->start) / page_bytes : 0;
        there = r && !pager_moves_any(d, start, page_bytes) && r->page[page].at == VMM_STALE &&
                vmm_claim_is_void(&d->vmm->pool[VMM_DEVICE], &r->page[page].claim);
        if (there)
            vmm_range_map_stale(d->vmm, r, page, 1);
        *at = start >= *at ? start + page_bytes : *at;
    }
    pager_unlock(d);
    return there;
}

/* What is beyond the budget is the driver's again only once nothing is mapped there. */
void vmm_give_back(struct pager *d, uint64_t most) {
    struct vmm_pool *pool = &d->vmm->pool[VMM_DEVICE];
    vmm_pool_trim(pool, most);
    bool gave = vmm_pool_gave_back(pool);
    for (addr_t at = 0; gave && map_next_void(d, &at);)
        ;
}

/* While nothing moves the device's frames are made as they are needed: the program may want the room for itself. */
static void follow_budget(struct pager *d) {
    struct vmm *v = d->vmm;
    pager_lock(d);
    uint64_t most = d->moving ? d->budget.bytes + d->aside + d->fixed : 0;
    uint64_t most_leave = d->budget.bytes; /* at a time */
    pager_unlock(d);
    uint32_t stock = (uint32_t)((most_leave < STOCK_BYTES ? most_leave : STOCK_BYTES) / page_bytes);
    vmm_pool_keep(&v->pool[VMM_DEVICE], stock, most, ask, v->maker);
    vmm_pool_keep(&v->pool[VMM_HOST], stock, UINT64_MAX, ask, v->maker);
    if (most)
        vmm_give_back(d, most);
}

static void *make(void *data) {
    struct vmm_maker *m = data;
    struct vmm *v = m->device->vmm;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    do {
        bool more = true;
        follow_budget(m->device);
        while (more && !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED)) {
            more = vmm_pool_stock(&v->pool[VMM_DEVICE]);
            more = vmm_pool_stock(&v->pool[VMM_HOST]) || more;
        }
    } while (wait(m));
    return NULL;
}

void vmm_maker_start(struct pager *d) {
    struct vmm_maker *m = d->vmm->maker ? NULL : calloc(1, sizeof *m);
    if (!m)
        return;
    m->device = d;
    pthread_mutex_init(&m->lock, NULL);
    pager_condition_open(&m->work);
    d->vmm->maker = m;
    session_stops_first();
    pager_worker_start(&m->worker, "ulms-frames", make, m);
}

void vmm_makers_stop(void) {
    struct timespec soon = pager_soon(PAGER_MOVED_S);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        struct vmm_maker *m = d->vmm ? d->vmm->maker : NULL;
        pager_unlock(d);
        if (!m)
            continue;
        pthread_mutex_lock(&m->lock);
        __atomic_store_n(&m->stopping, true, __ATOMIC_RELAXED);
        pthread_cond_signal(&m->work);
        pthread_mutex_unlock(&m->lock);
        pager_worker_join(&m->worker, &soon);
    }
}
