/* What the library call told that a launch is part of. */
#ifndef ULMS_TOLD_H
#define ULMS_TOLD_H

#include "launch/op.h"

/* The call of this thread, or NULL. */
static inline struct call *told_call(void) {
    struct thread *self = thread_self();
    return self && self->call.open ? &self->call : NULL;
}
/* The extent told around p, or behind it where the call was given p; with its mode. */
bool told_find(const struct call *call, addr_t p, struct touch *out);
/* The first launch of a call touches all that was told: it may hold addresses where no scan finds them. */
void told_carry(struct call *call, struct op *op);

#endif
