/* The order in which the nodes of a graph may run one after the other. */
#ifndef ULMS_GRAPH_ORDER_H
#define ULMS_GRAPH_ORDER_H

#include "driver.h"
#include "types.h"

struct graph_edge {
    size_t to;         /* a place in the order */
    bool programmatic; /* the second kernel may begin before the first one has ended */
};

struct graph_order {
    size_t count;
    CUgraphNode *nodes;       /* each behind those that it depends on; else as they were made */
    size_t *first;            /* edges[first[i]] to edges[first[i + 1] - 1] begin at nodes[i] */
    struct graph_edge *edges; /* to places behind the one where they begin */
};

/* False: it cannot be had, and nothing is to be freed. */
bool graph_order(CUgraph graph, struct graph_order *o);
void graph_order_free(struct graph_order *o);

#endif
