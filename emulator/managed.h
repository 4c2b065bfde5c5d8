/* Managed memory: where each of its 2 MiB pages is, what moves it, and room on the devices. */
#ifndef EMU_MANAGED_H
#define EMU_MANAGED_H

#include "memory.h"
#include "run.h"

/* The pages of a new area. False: no memory. */
bool managed_make(struct area *a);
/* Its pages leave the devices; their states are forgotten. */
void managed_dispose(struct area *a);
/* An operation touches [start, end) of the area: pages come to its device, or are used where they lie. */
void managed_touch(const struct area *a, uint64_t start, uint64_t end, struct emu_launch *r, int mode);
/* Moves the pages of the range to the device, or to the host (NULL). The bytes moved go to r's costs. */
void managed_move(const struct area *a, uint64_t start, uint64_t end, struct device *to, struct emu_launch *r);
/* What it holds will not be read again: such pages move without their bytes until they are written. */
void managed_discard(const struct area *a, uint64_t start, uint64_t end);
/* Bytes of the range that a move to the device, or to the host (NULL), would have to bring. */
uint64_t managed_absent(const struct area *a, uint64_t start, uint64_t end, const struct device *to);

/* For emu_traffic: bytes copied between host and device. */
void managed_count_copy(uint64_t in, uint64_t out);
/* And bytes that a kernel used on the host, in memory that is not managed. */
void managed_count_in_place(uint64_t bytes);

/* What the driver's page work holds: a copy from pageable memory that waits for its stream holds it meanwhile. */
extern pthread_mutex_t managed_gate;

#endif
