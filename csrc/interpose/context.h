/* Another context than the program's, current for a moment on a thread of the program. */
#ifndef ULMS_CONTEXT_H
#define ULMS_CONTEXT_H

#include <stdbool.h>

#include "driver.h"

/* False: refused, and nothing has changed. */
bool context_enter(CUcontext context);
/* The stream's; `before` is filled in. False: that is current, or was refused, and nothing has changed. */
bool context_enter_stream(int variant, CUstream stream, CUcontext *before);
/* Undoes either: `before` was current, and is again whatever the driver refuses but for good. */
void context_leave(CUcontext before);

#endif
