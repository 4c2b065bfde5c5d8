/* The lock of a device, and what waits under it. */
#include "backend/pager/pager.h"

enum { SLICE_NS = 50000000 };

void pager_monitor_open(struct pager *d) {
    pager_lock_open(&d->monitor.lock);
    pager_condition_open(&d->monitor.changed);
    pager_condition_open(&d->monitor.answered);
}

void pager_lock_open(pthread_mutex_t *lock) {
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &adaptive);
}

void pager_condition_open(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
}

struct timespec pager_timespec(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

void pager_lock(struct pager *d) {
    pthread_mutex_lock(&d->monitor.lock);
}

void pager_unlock(struct pager *d) {
    pthread_mutex_unlock(&d->monitor.lock);
}

/* A thread of the program that is cancelled here would keep the lock. */
static void wait_for(struct pager *d, pthread_cond_t *what, uint64_t until_ns) {
    struct timespec until = pager_timespec(until_ns);
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cond_timedwait(what, &d->monitor.lock, &until);
    pthread_setcancelstate(before, &before);
}

/* In slices: a gate may be closed meanwhile. */
static bool wait_at(struct pager *d, pthread_cond_t *what, struct patience *p) {
    uint64_t left = patience_left(p, d->monitor.progress_ns);
    if (left > 0)
        wait_for(d, what, clock_ns() + (left < SLICE_NS ? left : SLICE_NS));
    return left > 0;
}

bool pager_wait(struct pager *d, struct patience *p) {
    return wait_at(d, &d->monitor.changed, p);
}

bool pager_wait_for_answer(struct pager *d, struct patience *p) {
    return wait_at(d, &d->monitor.answered, p);
}

void pager_progressed(struct pager *d) {
    d->monitor.progress_ns = clock_ns();
}

void pager_notify(struct pager *d) {
    pthread_cond_broadcast(&d->monitor.changed);
}

void pager_notify_answered(struct pager *d) {
    pthread_cond_broadcast(&d->monitor.answered);
}

void pager_worker_sleep(struct pager *d, pthread_cond_t *until) {
    pthread_cond_wait(until, &d->monitor.lock);
}
