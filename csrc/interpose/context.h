/* Another context than the program's, current for a moment on a thread of the program. */
#ifndef ULMS_CONTEXT_H
#define ULMS_CONTEXT_H

#include <stdbool.h>

#include "driver.h"

/* False: refused, and nothing has changed. */
bool context_enter(CUcontext context);
/* Undoes it: `before` was current, and is again whatever the driver refuses but for good. */
void context_leave(CUcontext before);

#endif
