/* Another context than the program's, current for a moment on a thread of the program. */
#ifndef ULMS_CONTEXT_H
#define ULMS_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* False: refused, and nothing has changed. */
bool context_enter(CUcontext context);
/* The stream's; `before` is filled in. False: that is current, or was refused, and nothing has changed. */
bool context_enter_stream(int variant, CUstream stream, CUcontext *before);
/* Undoes either: `before` was current, and is again whatever the driver refuses but for good. */
void context_leave(CUcontext before);
/* A context that another thread may destroy, current for a moment: until context_visited its destruction waits. So a
 * visit is short, or waits for what a destruction waits for, too. CUDA_ERROR_CONTEXT_IS_DESTROYED: it is being
 * destroyed; any other error: it was refused. Nothing has changed then. */
struct context_visit {
    CUcontext context, before;
    struct context_visit *next;
};
CUresult context_visit(struct context_visit *v, CUcontext context);
void context_visited(struct context_visit *v);
/* A context is about to go: nothing of ours uses it until context_went, which tells whether it went. */
struct context_departure {
    struct context_visit at; /* of no context: none goes */
    bool told;               /* the backend was */
};
void context_going(struct context_departure *x, CUcontext context);
void context_went(struct context_departure *x, bool is_gone);
/* Whether all is done that its streams held when it was called: what waits for the context goes on at once then. It
 * looks for so long at most, or only as often as it takes to tell (0). CUDA_ERROR_NOT_READY: something runs;
 * CUDA_ERROR_CONTEXT_IS_DESTROYED: it will be told when it is gone; any other error: it cannot be told. Spoils no
 * capture. */
CUresult context_idle(CUcontext context, uint64_t most_ns);

#endif
