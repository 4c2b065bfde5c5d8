#define _GNU_SOURCE
#include "base/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 100, CONTENDED = 2 };

static void futex(const uint32_t *word, int what, uint32_t value, const struct timespec *until) {
    int before = errno;
    syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, until, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = before;
}

/* A thread that has slept cannot know whether others still do. */
void lock_wait(struct lock *l) {
    for (int i = 0; i < TRIES; i++) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        if (__atomic_load_n(&l->state, __ATOMIC_RELAXED) == 0 && lock_take_free(l))
            return;
    }
    while (__atomic_exchange_n(&l->state, CONTENDED, __ATOMIC_ACQUIRE) != 0)
        futex(&l->state, FUTEX_WAIT_BITSET, CONTENDED, NULL);
}

void lock_wake(struct lock *l) {
    futex(&l->state, FUTEX_WAKE, 1, NULL);
}

bool lock_try(struct lock *l) {
    section_begin();
    __tsan_mutex_pre_lock(l, __tsan_mutex_try_lock);
    bool took = lock_take_free(l);
    __tsan_mutex_post_lock(l, __tsan_mutex_try_lock | (took ? 0 : __tsan_mutex_try_lock_failed), 0);
    if (!took)
        section_end();
    return took;
}

void condition_wait(struct condition *c, struct lock *l, uint64_t until_ns) {
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    uint32_t changes = __atomic_load_n(&c->changes, __ATOMIC_RELAXED);
    section_begin();
    __atomic_fetch_add(&c->waiters, 1, __ATOMIC_RELAXED);
    lock_drop(l);
    futex(&c->changes, FUTEX_WAIT_BITSET, changes, until_ns ? &until : NULL);
    lock_take(l);
    __atomic_fetch_sub(&c->waiters, 1, __ATOMIC_RELAXED);
    section_end();
}

static void tell(struct condition *c, int most) {
    if (__atomic_load_n(&c->waiters, __ATOMIC_RELAXED) == 0)
        return;
    __atomic_fetch_add(&c->changes, 1, __ATOMIC_RELEASE);
    futex(&c->changes, FUTEX_WAKE, (uint32_t)most, NULL);
}

void condition_tell_one(struct condition *c) {
    tell(c, 1);
}

void run_once(pthread_once_t *once, void (*run)(void)) {
    section_begin();
    pthread_once(once, run);
    section_end();
}

void condition_tell_all(struct condition *c) {
    tell(c, INT_MAX);
}
