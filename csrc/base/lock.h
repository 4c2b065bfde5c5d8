/* Locks and conditions. They are our own for the sake of jumps out of signal handlers (base/jump.h), and as the wait at
 * a condition of pthread is a cancellation point.
 *
 * A thread is in a section from before it takes a lock until after it gave it back, also while it waits at a condition.
 * No jump leaves a section, so nothing that a lock guards is left half changed. What several locks guard together, or
 * a variable of the thread's says of it, changes in a section, too. */
#ifndef ULMS_LOCK_H
#define ULMS_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"

/* All 0: free. Held for a moment, so a thread tries for as long before it sleeps. */
struct lock {
    uint32_t state;
};
/* All 0: no thread waits. */
struct condition {
    uint32_t changes, waiters;
};

/* A handler that interrupts the thread finds what stands before it done, and nothing that stands behind. */
static inline void section_fence(void) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void section_begin(void) {
    thread_here.sections++;
    section_fence();
}

/* pthread_once, in a section. */
void run_once(pthread_once_t *once, void (*run)(void));

/* Makes the jump that was put off. */
void section_left(void);
static inline void section_end(void) {
    section_fence();
    if (--thread_here.sections == 0 && __builtin_expect(thread_here.jumps, 0))
        section_left();
}

void lock_wait(struct lock *l);
void lock_wake(struct lock *l);

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_mutex_pre_lock(l, flags)         ((void)0)
#define __tsan_mutex_post_lock(l, flags, depth) ((void)0)
#define __tsan_mutex_pre_unlock(l, flags)       ((void)0)
#define __tsan_mutex_post_unlock(l, flags)      ((void)0)
#endif

/* False: another thread has it. The caller is in a section. */
static inline bool lock_take_free(struct lock *l) {
    uint32_t none = 0;
    return __atomic_compare_exchange_n(&l->state, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *l) {
    section_begin();
    __tsan_mutex_pre_lock(l, 0);
    if (__builtin_expect(!lock_take_free(l), 0))
        lock_wait(l);
    __tsan_mutex_post_lock(l, 0, 0);
}

static inline void lock_drop(struct lock *l) {
    __tsan_mutex_pre_unlock(l, 0);
    if (__builtin_expect(__atomic_exchange_n(&l->state, 0, __ATOMIC_RELEASE) > 1, 0))
        lock_wake(l);
    __tsan_mutex_post_unlock(l, 0);
    section_end();
}

/* False: another thread has it. */
bool lock_try(struct lock *l);

/* Returns when the condition was told, at until_ns of CLOCK_MONOTONIC (0: no end), or for no reason. The lock is free
 * meanwhile. */
void condition_wait(struct condition *c, struct lock *l, uint64_t until_ns);
/* What waiters look at has changed, under their lock. */
void condition_tell_one(struct condition *c);
void condition_tell_all(struct condition *c);

#endif
