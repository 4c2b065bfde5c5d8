#include "interpose/shape.h"

#include <stdlib.h>

#include "base/spread.h"
#include "interpose/session.h"

/* A node and its place among the nodes. */
struct place {
    CUgraphNode node;
    size_t at;
};

/* From a node to another. Only the ends are compared: what else an edge carries says nothing of the order. */
struct edges {
    CUgraphNode *from, *to;
    size_t count;
};

static bool get(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n) {
    CUresult result = REAL(cuGraphGetEdges_v2, 0)(graph, from, to, data, n);
    if (result == CUDA_ERROR_NOT_SUPPORTED) /* as of 12.3 */
        result = REAL(cuGraphGetEdges, 0)(graph, from, to, n);
    return result == CUDA_SUCCESS;
}

static bool read_edges(CUgraph graph, struct edges *e) {
    *e = (struct edges){0};
    if (!get(graph, NULL, NULL, NULL, &e->count))
        return false;
    CUgraphEdgeData *data = calloc(e->count + 1, sizeof *data);
    e->from = calloc(e->count + 1, sizeof *e->from);
    e->to = calloc(e->count + 1, sizeof *e->to);
    bool done = data && e->from && e->to && (e->count == 0 || get(graph, e->from, e->to, data, &e->count));
    free(data);
    return done;
}

static int by_node(const void *a, const void *b) {
    uintptr_t one = (uintptr_t)((const struct place *)a)->node, other = (uintptr_t)((const struct place *)b)->node;
    return (one > other) - (one < other);
}

static struct place *places_of(const CUgraphNode *nodes, size_t n) {
    struct place *places = calloc(n + 1, sizeof *places);
    for (size_t i = 0; places && i < n; i++)
        places[i] = (struct place){nodes[i], i};
    if (places)
        qsort(places, n, sizeof *places, by_node);
    return places;
}

/* Behind all of them: none of theirs. */
static size_t place_of(const struct place *places, size_t n, CUgraphNode node) {
    const struct place *found = bsearch(&(struct place){node, 0}, places, n, sizeof *places, by_node);
    return found ? found->at : n;
}

static uint64_t add(uint64_t shape, uint64_t number) {
    shape = spread(shape ^ number);
    return shape ^ shape >> 32;
}

uint64_t shape_of(CUgraph graph, const CUgraphNode *nodes, size_t n) {
    struct edges e;
    struct place *places = places_of(nodes, n);
    bool read = read_edges(graph, &e) && places;
    uint64_t shape = add(1, n);
    for (size_t i = 0; read && i < n; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        read = REAL(cuGraphNodeGetType, 0)(nodes[i], &type) == CUDA_SUCCESS;
        shape = add(shape, type);
    }
    for (size_t i = 0; read && i < e.count; i++)
        shape = add(add(shape, place_of(places, n, e.from[i])), place_of(places, n, e.to[i]));
    free(places);
    free(e.from);
    free(e.to);
    return read ? shape | 1 : 0;
}
