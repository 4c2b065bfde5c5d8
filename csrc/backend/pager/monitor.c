/* The lock of a device, and what waits under it. */
#include "backend/pager/pager.h"

enum { SLICE_NS = 50000000 };

void pager_lock(struct pager *d) {
    lock_take(&d->monitor.lock);
}

void pager_unlock(struct pager *d) {
    lock_drop(&d->monitor.lock);
}

/* In slices: a gate may be closed meanwhile. */
static bool wait_at(struct pager *d, struct condition *what, struct patience *p) {
    uint64_t left = patience_left(p, d->monitor.progress_ns);
    if (left > 0) {
        uint64_t until_ns = clock_ns() + (left < SLICE_NS ? left : SLICE_NS);
        condition_wait(what, &d->monitor.lock, until_ns);
        patience_slept(p, until_ns);
    }
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
    condition_tell_all(&d->monitor.changed);
}

void pager_notify_answered(struct pager *d) {
    condition_tell_all(&d->monitor.answered);
}

void pager_worker_sleep(struct pager *d, struct condition *until) {
    condition_wait(until, &d->monitor.lock, 0);
}
