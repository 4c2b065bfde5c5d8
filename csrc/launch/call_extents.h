/* What the library call told that a launch is part of. */
#ifndef ULMS_CALL_EXTENTS_H
#define ULMS_CALL_EXTENTS_H

#include "launch/op.h"

/* The call of this thread, or NULL. */
static inline struct call *call_under_way(void) {
    struct thread *self = thread_self();
    return self && self->call.open ? &self->call : NULL;
}
/* A block of the ledger is used in a call that did not tell it. What another call told of the place may be too small: a
 * guess. */
static inline void call_extents_elsewhere(struct touch *t) {
    if (t->source == SOURCE_LIBRARY)
        t->source = SOURCE_OBSERVED;
}
/* Whether p lies in an extent that was told, or before it where the call was given p. The launch that holds p shows it,
 * and every other one around p: spans with holes lie in each other. */
bool call_extents_show(struct call *call, addr_t p);
/* What the call told is all that its kernels use of the program's: their arguments need no look. */
static inline bool call_extents_suffice(const struct call *call) {
    return call->whole && !call->hides && call->front > 0;
}
/* The launch touches what was told: the first one all of it, as it may hold addresses where no scan finds them, and so
 * does one that shows none. Others leave out what is only read where they do not show it. Those of a call that told
 * nothing hide what they use. */
void call_extents_carry(struct call *call, struct op *op);
/* The operation is in a call whose kernels are one, and touches nothing that this did not tell. */
bool call_extents_cover(const struct op *op);
/* The next launch of the call under way is to touch all of what was told. */
void call_extents_again(void);

#endif
