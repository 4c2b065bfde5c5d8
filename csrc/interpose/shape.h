/* The shape of a graph: its nodes' types and its edges, in their order. Of two graphs with the same one the driver
 * pairs the nodes by their places. */
#ifndef ULMS_SHAPE_H
#define ULMS_SHAPE_H

#include "driver.h"

/* A number for the shape of a graph with these nodes. 0: it cannot be told. */
uint64_t shape_of(CUgraph graph, const CUgraphNode *nodes, size_t n);

#endif
