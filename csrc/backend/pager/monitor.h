/* The lock of a device, and what waits under it.
 *
 * Order: a device's lock is never held during a driver call that may wait for the device, but by the ordered
 * policies, whose moves are issued under it: nothing of ours ever keeps the device from getting on. */
#ifndef ULMS_PAGER_MONITOR_H
#define ULMS_PAGER_MONITOR_H

#include "base/lock.h"
#include "base/patience.h"

struct pager_monitor {
    struct lock lock;
    struct condition changed;  /* a move or an operation is done, memory went, or moving ended */
    struct condition answered; /* an operation that is held */
    uint64_t progress_ns;      /* when an operation or a move was done last */
};

struct pager;

void pager_lock(struct pager *d);
void pager_unlock(struct pager *d);
/* Something changed: whoever waits looks again. Under the lock. */
void pager_notify(struct pager *d);
/* The same for those who wait for an answer. */
void pager_notify_answered(struct pager *d);
/* Waits until something changed, for a moment at most. False: patience has run out. Under the lock. */
__attribute__((warn_unused_result)) bool pager_wait(struct pager *d, struct patience *p);
/* The same until an operation that is held was answered. */
__attribute__((warn_unused_result)) bool pager_wait_for_answer(struct pager *d, struct patience *p);
/* A thread of ours has nothing to do. Under the lock. */
void pager_worker_sleep(struct pager *d, struct condition *until);
/* An operation or a move is done. Under the lock. */
void pager_progressed(struct pager *d);

#endif
