/* A moment in which no operation runs. */
#ifndef ULMS_PAGER_FREEZE_H
#define ULMS_PAGER_FREEZE_H

#include <stdbool.h>
#include <stdint.h>

struct pager;

/* On return nothing that the program issued runs, no operation is admitted and no move begins, on any device, until
 * pager_thaw. False: something ran still after so long, or *given_up is true, and nothing has changed. On a thread of
 * ours, one at a time, without a lock. */
bool pager_freeze(uint64_t patience_ns, const bool *given_up);
void pager_thaw(void);
/* Nothing runs that was issued to the device, and nothing that was admitted is still to be. Looks once. On a thread of
 * ours, without a lock. */
bool pager_idle(struct pager *d);
/* An operation that is about to be admitted waits until pager_thaw. False: that lasts for longer than any driver takes,
 * and it must not run. Under the lock, which waiting releases. */
bool pager_frozen_wait(struct pager *d);

#endif
