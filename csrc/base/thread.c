#define _GNU_SOURCE
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "base/lock.h"

enum {
    TOUCH_BYTES = 2 * TOUCH_MAX * sizeof(struct touch), /* an operation's, and a call's */
    THREAD_BYTES = TOUCH_BYTES + SCRATCHES * SCRATCH_BYTES,
};

__thread struct thread thread_here;
static pthread_key_t key;
static bool have_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct thread_end *ends;
static uint32_t threads;
static uint64_t serials;

static void end(void *touches) {
    for (int first = 1; first >= 0; first--)
        for (struct thread_end *e = __atomic_load_n(&ends, __ATOMIC_ACQUIRE); e; e = e->next)
            if (e->first == first)
                e->run(&thread_here);
    thread_here = (struct thread){0};
    munmap(touches, THREAD_BYTES);
}

static void make_key(void) {
    have_key = pthread_key_create(&key, end) == 0;
}

/* From mmap: zeroed, untouched pages cost nothing, and the program may be inside its malloc. */
static struct thread *thread_new(void) {
    run_once(&once, make_key);
    struct touch *touches =
        mmap(NULL, THREAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (touches == MAP_FAILED)
        return NULL;
    if (!have_key || pthread_setspecific(key, touches) != 0) { /* they could never be given back */
        munmap(touches, THREAD_BYTES);
        return NULL;
    }
    thread_here.id = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    thread_here.touches = touches;
    thread_here.call.touches = touches + TOUCH_MAX;
    return &thread_here;
}

struct thread *thread_enter(void) {
    section_begin();
    struct thread *t = thread_new();
    section_end();
    return t;
}

void *thread_scratch(enum scratch which) {
    struct thread *t = thread_self();
    return t ? (char *)t->touches + TOUCH_BYTES + (size_t)which * SCRATCH_BYTES : NULL;
}

void thread_at_end(struct thread_end *e) {
    e->next = __atomic_load_n(&ends, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&ends, &e->next, e, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
}

uint64_t serial_next(void) {
    return __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
}

uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The touches of the other threads stay mapped: their pages are shared with the parent until written. */
void thread_fork_child(void) {
    thread_here.ring = NULL;
}

void thread_sleep(long us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* Trap: to yield alone gives the processor to nobody of a lower priority, who may be the one that is waited for. */
void thread_give_way(int tries) {
    enum { YIELDS = 16, SLEEP_US = 20 };
    int before;
    if (tries < YIELDS) {
        sched_yield();
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    thread_sleep(SLEEP_US);
    pthread_setcancelstate(before, &before);
}
