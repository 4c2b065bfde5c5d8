/* The backend contract: how memory is provided and moved, and what holds an operation back until its pages are there.
 *
 * admit runs on the issuing thread before the real call, with the operation's touches known; it may wait. It is never
 * called for an operation that goes into a stream capture. settle runs after the real call and pairs with every admit.
 * Neither changes the program's arguments or result. */
#ifndef ULMS_BACKEND_H
#define ULMS_BACKEND_H

#include "launch/op.h"

struct backend {
    const char *name; /* what ULMS_BACKEND calls it */
    void (*admit)(struct op *op);
    void (*settle)(const struct op *op);
};

extern const struct backend backend_observe; /* replaces nothing: counts and traces */

#endif
