/* What the library call told that a launch is part of. */
#ifndef ULMS_TOLD_H
#define ULMS_TOLD_H

#include "launch/op.h"

/* The call of this thread, or NULL. */
static inline struct call *told_call(void) {
    struct thread *self = thread_self();
    return self && self->call.open ? &self->call : NULL;
}
/* The extent told around p, or behind it where the call was given p: its place among those at the front, TOLD_NONE when
 * there is none. */
enum { TOLD_NONE = TOUCH_MAX };
uint32_t told_find(struct call *call, addr_t p);
/* The first launch of a call touches all that was told: it may hold addresses where no scan finds them. Those of a call
 * that told nothing hide what they use. */
void told_carry(struct call *call, struct op *op);

#endif
