/* What may not come while a gate is closed, and how much of it there is. */
#ifndef ULMS_GATE_H
#define ULMS_GATE_H

#include <stddef.h>

#include "base/lock.h"

/* All 0: open, and nothing is there. */
struct gate {
    struct lock lock;
    struct condition opened;
    uint32_t closed; /* for devices: a bit each */
    size_t there;    /* what came in, or is about to */
};

/* Before n more come: waits while the gate is closed. The caller holds no lock that resuming the program needs. */
void gate_enter(struct gate *g, size_t n);
/* They did not come, or are no more. */
void gate_leave(struct gate *g, size_t n);
/* Nothing comes until it is open for all devices. Returns how much is there. */
size_t gate_close(struct gate *g, int device);
void gate_open(struct gate *g, int device);

#endif
