/* Copies to the host, one after the other. The driver gives access to what is mapped only behind all of them that are
 * queued by then: so the next one is queued as late as its bytes can still follow those before them. */
#include <sched.h>
#include <time.h>

#include "backend/vmm/vmm.h"
#include "observe/stats.h"

enum {
    LAUNCH_NS = 8000, /* from the call to its bytes */
    WAKE_NS = 70000,  /* the shortest sleep may take so long */
    MIB_BITS = 20,
    SLOWER = 8, /* what took longer than expected counts as one in so many */
};

void d2h_queue_open(struct d2h_queue *t) {
    *t = (struct d2h_queue){.ends_ns = 0};
}

/* Copies that are queued and have not gone. */
static uint64_t going(const struct d2h_queue *t) {
    return t->queued - __atomic_load_n(&t->gone, __ATOMIC_ACQUIRE);
}

/* Who is next has the lock: nobody has to be woken when the copy before ends. Far from the expected end it sleeps, a
 * little at a time, as the end may be another. */
static void wait_for_turn(const struct d2h_queue *t) {
    uint64_t from_ns = t->ends_ns ? t->ends_ns - LAUNCH_NS : UINT64_MAX, now = clock_ns();
    for (uint64_t others; (others = going(t)) > 0 && (others > 1 || now < from_ns); now = clock_ns())
        if (t->ends_ns && now + WAKE_NS >= from_ns && now < t->ends_ns + WAKE_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 1}, NULL);
}

static uint64_t clamp(uint64_t x, uint64_t least, uint64_t most) {
    return x < least ? least : x < most ? x : most;
}

/* Who waits for too long lets the link idle: what took less than expected counts at once. A thread that was kept from
 * running saw another time than the copy took: no change is of more than twice. */
static void learn(struct d2h_queue *t, uint64_t bytes, uint64_t ns) {
    uint64_t took = (ns << MIB_BITS) / bytes + 1, before = __atomic_load_n(&t->mib_ns, __ATOMIC_RELAXED);
    if (before)
        took = clamp(took, before / 2, 2 * before);
    uint64_t now = !before || took < before ? took : before + (took - before) / SLOWER;
    __atomic_store_n(&t->mib_ns, now, __ATOMIC_RELAXED);
}

bool d2h_queue_copy(struct d2h_queue *t, addr_t to, addr_t from, uint64_t bytes, CUstream stream) {
    lock_take(&t->lock);
    wait_for_turn(t);
    bool follows = going(t) > 0;
    if (!vmm_copy(to, from, bytes, stream)) {
        lock_drop(&t->lock);
        return false;
    }
    uint64_t mib_ns = __atomic_load_n(&t->mib_ns, __ATOMIC_RELAXED), now = clock_ns();
    uint64_t begins = follows && now < t->ends_ns ? t->ends_ns : now;
    t->ends_ns = mib_ns ? begins + (bytes * mib_ns >> MIB_BITS) : 0;
    t->queued++;
    lock_drop(&t->lock);
    bool done = vmm_wait(stream);
    __atomic_fetch_add(&t->gone, 1, __ATOMIC_RELEASE);
    uint64_t ended = clock_ns();
    if (done && ended > begins) {
        learn(t, bytes, ended - begins);
        stats_add(COUNT_sent_ns, ended - begins);
    }
    return done;
}
