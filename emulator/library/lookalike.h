/* What every look-alike library does when it is called. */
#ifndef EMU_LOOKALIKE_H
#define EMU_LOOKALIKE_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/abi.h"

enum { LOOKALIKE_HELD_MAX = 64 };

#define LOOKALIKE_HELD(...) const void *const held[] = {__VA_ARGS__}

/* Launches one kernel with these pointers, at most LOOKALIKE_HELD_MAX, as arguments. False when the driver refuses. */
bool lookalike_run(CUstream stream, const void *const *held, unsigned count);

#endif
