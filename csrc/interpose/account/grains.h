/* Small memory: the driver puts many pieces into one grain, and has it back only with the last of them. */
#ifndef ULMS_GRAINS_H
#define ULMS_GRAINS_H

#include "types.h"

/* Whether the driver puts memory of so many bytes beside other pieces. */
bool grains_shared(uint64_t bytes);
/* Whether one more piece may fit into grains of the device that are open. Where the driver has pieces of its own there,
 * it does not. */
bool grains_have_room(int device, uint64_t bytes);
/* The driver gave out a piece, or is about to have it back: bytes of the grains that it opened, or closed. */
uint64_t grains_join(int device, addr_t start, uint64_t bytes);
uint64_t grains_leave(int device, addr_t start, uint64_t bytes);

#endif
