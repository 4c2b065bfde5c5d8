/* A context takes all its memory with it. */
#ifndef ULMS_DEPARTURE_H
#define ULMS_DEPARTURE_H

#include "driver/context.h"

/* A context is about to go: nothing of ours uses it until context_went, which tells whether it went. */
struct context_departure {
    struct context_visit at; /* of no context: none goes */
    bool told;               /* the backend was */
};
void context_going(struct context_departure *x, CUcontext context);
void context_went(struct context_departure *x, bool is_gone);

#endif
