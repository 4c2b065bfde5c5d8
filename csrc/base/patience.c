#include "base/patience.h"

#include "base/larger.h"
#include "base/lock.h"
#include "base/thread.h"

/* One in so many nanoseconds pays; with all but one in so many owed, nobody waits; what answers within microseconds
 * does so within so many looks. */
enum { PAID = 20, WHOLE = 8, LOOKS = 20 };
enum { STOPPED_NS = 500000000 }; /* no machine is busy for so long */

static struct lock lock;             /* of what is owed; nothing is taken under it */
static uint64_t owed_ns, counted_ns; /* so much was owed then; atomic */
static uint32_t gates;               /* atomic */

void patience_gates(int more) {
    __atomic_fetch_add(&gates, (uint32_t)more, __ATOMIC_RELAXED);
}

bool patience_gated(void) {
    return __atomic_load_n(&gates, __ATOMIC_RELAXED) > 0;
}

/* Under the lock. */
static uint64_t owed(uint64_t now) {
    uint64_t paid = now > counted_ns ? (now - counted_ns) / PAID : 0;
    return owed_ns > paid ? owed_ns - paid : 0;
}

/* Several threads wait in vain at the same time: that counts once. */
static void owe(uint64_t began, uint64_t end) {
    lock_take(&lock);
    uint64_t in_vain = end - (began > counted_ns ? began : counted_ns), all = owed(end) + in_vain;
    if (end > counted_ns) {
        __atomic_store_n(&owed_ns, all < PATIENCE_NS ? all : PATIENCE_NS, __ATOMIC_RELAXED);
        counted_ns = end;
    }
    lock_drop(&lock);
}

/* How long a wish may wait without progress. */
static uint64_t allowed(void) {
    uint64_t most = patience_gated() ? PATIENCE_GATED_NS : PATIENCE_NS;
    if (__atomic_load_n(&owed_ns, __ATOMIC_RELAXED) == 0)
        return most;
    lock_take(&lock);
    uint64_t now_owed = owed(clock_ns());
    lock_drop(&lock);
    return now_owed < most - most / WHOLE ? most - now_owed : 0;
}

bool patience_gone(void) {
    return allowed() == 0;
}

/* Without progress, and with. */
static uint64_t bounds(const struct patience *p, uint64_t *all) {
    uint64_t most = p->what == PATIENCE_NEED    ? PATIENCE_MOST_NS
                    : p->what == PATIENCE_STEAD ? PATIENCE_STEAD_NS
                    : p->what == PATIENCE_TURN  ? UINT64_MAX / 4
                                                : allowed();
    *all = p->what == PATIENCE_WISH ? (patience_gated() ? PATIENCE_GATED_TIMES : PATIENCE_TIMES) * most : most;
    if (p->most_ns)
        *all = smaller(*all, p->most_ns);
    return smaller(most, *all);
}

uint64_t patience_left(struct patience *p, uint64_t progress_ns) {
    if ((p->what == PATIENCE_WISH || p->what == PATIENCE_TURN) && thread_here.jumps)
        return 0;
    uint64_t now = clock_ns(), all, most = bounds(p, &all);
    if (!p->began_ns)
        p->began_ns = now;
    uint64_t since = larger(larger(p->began_ns, p->resumed_ns), progress_ns);
    uint64_t end = smaller(since + most, p->began_ns + all);
    if (now < end)
        return end - now;
    if (p->what == PATIENCE_WISH)
        owe(p->began_ns, end); /* what is beyond went to other threads */
    p->began_ns = p->resumed_ns = 0;
    return 0;
}

void patience_slept(struct patience *p, uint64_t until_ns) {
    uint64_t now = clock_ns();
    if (!p->began_ns || now < until_ns + STOPPED_NS)
        return;
    p->began_ns += now - until_ns;
    p->resumed_ns = now;
}

bool patience_rest(struct patience *p) {
    bool lasts = patience_left(p, 0) > 0 || p->tries < LOOKS;
    uint64_t now = clock_ns();
    if (lasts)
        thread_give_way(p->tries++);
    patience_slept(p, now);
    return lasts;
}
