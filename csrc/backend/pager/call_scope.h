/* Library calls whose kernels are one operation. */
#ifndef ULMS_PAGER_CALL_SCOPE_H
#define ULMS_PAGER_CALL_SCOPE_H

#include "backend/pager/pager.h"

/* Ends the thread's call, on all devices, unless the operation is part of it. Without a lock. */
void call_scope_look(const struct op *op);
/* The thread is within a library's call that has a ticket. */
bool call_scope_any(const struct pager *d);
/* That ticket, with a share in it; 0: there is none. Under the lock. */
uint64_t call_scope_ticket(struct pager *d);
/* The operation was admitted with all that its call was handed: what follows in the call is part of it. Not where
 * moves are ordered, which follow the one event of a ticket. Under the lock. */
void call_scope_begin(struct pager *d, uint64_t ticket);
/* Under the lock. */
void call_scope_end(struct pager *d);
/* The thread's call has returned, or it may wait for what the call keeps: it ends on all devices. Without a lock. */
void pager_returned(void);

#endif
