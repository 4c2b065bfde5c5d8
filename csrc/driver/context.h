/* Which context is current, and another one made current for a moment. */
#ifndef ULMS_CONTEXT_H
#define ULMS_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* The calling thread's current context, as a number; 0: none. */
uint64_t context_current(void);
/* There is none: the driver says so. */
bool context_is_none(void);
/* Its device, or DEVICE_NONE. */
int context_device(void);
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
/* The context is about to be destroyed: visits of it are refused until context_unbar. Waits for those under way. */
void context_bar(struct context_visit *v, CUcontext context);
void context_unbar(struct context_visit *v);
/* Whether all is done that its streams held when it was called: what waits for the context goes on at once then. It
 * looks for so long at most, or only as often as it takes to tell (0). CUDA_ERROR_NOT_READY: something runs;
 * CUDA_ERROR_CONTEXT_IS_DESTROYED: it will be told when it is gone; any other error: it cannot be told. Spoils no
 * capture. */
CUresult context_idle(CUcontext context, uint64_t most_ns);

#endif
