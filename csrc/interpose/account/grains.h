/* Small memory: the driver puts many pieces into one grain, and has it back only with the last of them. */
#ifndef ULMS_GRAINS_H
#define ULMS_GRAINS_H

#include "types.h"

struct charge;

/* Whether the driver puts memory of so many bytes beside other pieces. */
bool grains_shared(uint64_t bytes);
/* Whether one more piece may fit into grains of the device that are open. Where the driver has pieces of its own there,
 * it does not. */
bool grains_have_room(int device, uint64_t bytes);
/* The driver gave out a piece; *opened: bytes of the grains that it opened. False: promise refused those, and the piece
 * is in none, so that a piece beside it opens its grain itself. */
bool grains_join(struct charge *c, addr_t start, uint64_t bytes, bool (*promise)(struct charge *, uint64_t opened),
                 uint64_t *opened);
/* The driver is about to have a piece back: bytes of the grains that it closed. */
uint64_t grains_leave(int device, addr_t start, uint64_t bytes);

#endif
