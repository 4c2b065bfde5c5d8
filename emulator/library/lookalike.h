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
/* Of a library whose calls stand in groups: true if this one is launched later. */
bool lookalike_defers(CUstream stream, const void *const *held, unsigned count) __attribute__((weak));

/* Adds kernel nodes to the graph, which must be empty: each holds one of the pointers and comes after the one before.
 * Every other one is added as a node of any kind. */
bool lookalike_populate(CUgraph graph, const void *const *held, unsigned count);
/* Gives the nodes that lookalike_populate added these pointers. A node whose pointer would be NULL stays as it is. */
bool lookalike_update(CUgraph graph, const void *const *held, unsigned count);

#endif
