/* Copies to the host, one after the other. The driver gives access to what is mapped only behind all of them that are
 * queued by then: so the next one is queued as late as its bytes can still follow those before them. */
#include <sched.h>
#include <time.h>

#include "backend/vmm.h"
#include "base/thread.h"
#include "observe/stats.h"

enum {
    LAUNCH_NS = 8000, /* from the call to its bytes */
    WAKE_NS = 70000,  /* a sleep may take so much longer */
    MIB_BITS = 20,
    SLOWER = 8, /* what took longer than expected counts as one in so many */
};

void vmm_turn_open(struct vmm_turn *t) {
    *t = (struct vmm_turn){.ends_ns = 0};
    pthread_mutex_init(&t->lock, NULL);
}

/* Copies that are queued and have not gone. */
static uint64_t going(const struct vmm_turn *t) {
    return t->queued - __atomic_load_n(&t->gone, __ATOMIC_ACQUIRE);
}

static void sleep_until(uint64_t ns) {
    struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Who is next has the lock: nobody has to be woken when the copy before ends. */
static void wait_for_turn(const struct vmm_turn *t) {
    uint64_t from_ns = t->ends_ns ? t->ends_ns - LAUNCH_NS : UINT64_MAX;
    if (t->ends_ns && going(t) > 0 && clock_ns() + WAKE_NS < from_ns)
        sleep_until(from_ns - WAKE_NS);
    for (uint64_t others; (others = going(t)) > 0 && (others > 1 || clock_ns() < from_ns);)
        sched_yield();
}

/* Who waits for too long lets the link idle: what took less than expected counts at once. */
static void learn(struct vmm_turn *t, uint64_t bytes, uint64_t ns) {
    uint64_t took = (ns << MIB_BITS) / bytes, before = __atomic_load_n(&t->mib_ns, __ATOMIC_RELAXED);
    uint64_t now = !before || took < before ? took : before + (took - before) / SLOWER;
    __atomic_store_n(&t->mib_ns, now, __ATOMIC_RELAXED);
}

bool vmm_turn_copy(struct vmm_turn *t, addr_t to, addr_t from, uint64_t bytes, CUstream stream) {
    pthread_mutex_lock(&t->lock);
    wait_for_turn(t);
    bool follows = going(t) > 0, good = vmm_copy(to, from, bytes, stream);
    uint64_t mib_ns = __atomic_load_n(&t->mib_ns, __ATOMIC_RELAXED), now = clock_ns();
    uint64_t begins = follows && now < t->ends_ns ? t->ends_ns : now;
    t->ends_ns = mib_ns ? begins + (bytes * mib_ns >> MIB_BITS) : 0;
    t->queued++;
    pthread_mutex_unlock(&t->lock);
    bool done = vmm_wait(stream);
    __atomic_fetch_add(&t->gone, 1, __ATOMIC_RELEASE);
    uint64_t ended = clock_ns();
    if (good && done && ended > begins) {
        learn(t, bytes, ended - begins);
        stats_add(COUNT_sent_ns, ended - begins);
    }
    return good;
}
