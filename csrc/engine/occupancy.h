/* Pages that are planned to be resident at each operation of a period. Operations may be told as numbers that go on
 * growing: they are taken modulo the period. A range covers at most one period. */
#ifndef ULMS_ENGINE_OCCUPANCY_H
#define ULMS_ENGINE_OCCUPANCY_H

#include "types.h"

struct occupancy {
    uint32_t operations;
    uint32_t leaves; /* power of two */
    int32_t *most;   /* a node's maximum, without what its ancestors add */
    int32_t *added;  /* to all below a node */
};

/* Takes the operations' values over. False: no memory; may be closed all the same. */
bool occupancy_open(struct occupancy *o, uint32_t operations, const uint32_t *values);
void occupancy_close(struct occupancy *o);
uint32_t occupancy_at(const struct occupancy *o, uint64_t operation);
void occupancy_set(struct occupancy *o, uint64_t operation, uint32_t value);
/* Adds one to each operation of [first, end). */
void occupancy_take(struct occupancy *o, uint64_t first, uint64_t end);
/* The first operation of [first, end) that has limit pages or more; end: none has. O(log operations). */
uint64_t occupancy_full(const struct occupancy *o, uint64_t first, uint64_t end, uint32_t limit);

#endif
