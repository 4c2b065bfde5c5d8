/* Memory that a graph's own nodes allocate. A launch takes it; the device has it back when the driver is asked to trim,
 * and what the graph does not free lives on. */
#ifndef ULMS_GRAPH_MEMORY_H
#define ULMS_GRAPH_MEMORY_H

#include "interpose/account/charge.h"

struct graph_memory {
    uint64_t most;  /* bytes that a launch needs at one time, at most; 0: nothing is allocated */
    uint64_t left;  /* bytes of it that it does not free */
    uint64_t round; /* of counting, in which `left` was counted last */
};

/* A free counts for what comes behind it in the graph, and not for what runs beside it. */
struct graph_memory graph_memory_of(CUgraph graph);
/* Around a launch into the stream, and before it is admitted: promises what it takes, and makes pages leave for it;
 * charges what the driver took. False: the limit has no room, see charge_open. */
bool graph_memory_open(struct charge *c, struct graph_memory *g, uint64_t stream);
void graph_memory_close(struct charge *c, CUresult status);

#endif
