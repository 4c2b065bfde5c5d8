/* The calls that list nodes and edges of graphs, and change edges. Lists are filled as the driver does: with NULL the
 * number is told, else at most so many are written and what is left over is NULL. */
#include "call.h"
#include "graph.h"

struct list {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t room, count;
};

static void list_add(struct list *l, CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data) {
    if (l->count < l->room) {
        if (l->from)
            l->from[l->count] = from;
        if (l->to)
            l->to[l->count] = to;
        if (l->data)
            l->data[l->count] = data ? *data : (CUgraphEdgeData){0};
    }
    l->count++;
}

static CUresult list_end(struct list *l, size_t *n) {
    for (size_t i = l->count; i < l->room; i++) {
        if (l->from)
            l->from[i] = NULL;
        if (l->to)
            l->to[i] = NULL;
    }
    *n = l->room && l->count > l->room ? l->room : l->count;
    return CUDA_SUCCESS;
}

static struct list list_begin(CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, const size_t *n) {
    return (struct list){from, to, data, from || to ? *n : 0, 0};
}

/* Edges that carry something cannot be told to who does not ask for it. */
static bool hides(const struct edge *e, const CUgraphEdgeData *asked) {
    return !asked && (e->data.from_port || e->data.to_port || e->data.type);
}

static CUresult nodes(CUgraph g, CUgraphNode *out, size_t *n, bool roots) {
    INVALID_IF(!g || !n);
    struct list l = list_begin(out, NULL, NULL, n);
    for (CUgraphNode node = g->first; node; node = node->next)
        if (!roots || node->after_count == 0)
            list_add(&l, node, NULL, NULL);
    return list_end(&l, n);
}

CALL(cuGraphGetNodes, CALL_DRIVER, CUgraph g, CUgraphNode *out, size_t *n) {
    return nodes(g, out, n, false);
}

CALL(cuGraphGetRootNodes, CALL_DRIVER, CUgraph g, CUgraphNode *out, size_t *n) {
    return nodes(g, out, n, true);
}

static CUresult edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n,
                      bool wants_data) {
    INVALID_IF(!g || !n || !from != !to);
    struct list l = list_begin(from, to, data, n);
    for (CUgraphNode node = g->first; node; node = node->next) {
        for (size_t i = 0; i < node->after_count; i++) {
            if (from && hides(&node->after[i], wants_data ? data : NULL))
                return CUDA_ERROR_LOSSY_QUERY;
            list_add(&l, node->after[i].from, node, &node->after[i].data);
        }
    }
    return list_end(&l, n);
}

CALL(cuGraphGetEdges, CALL_DRIVER, CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
    return edges(g, from, to, NULL, n, false);
}

CALL(cuGraphGetEdges_v2, CALL_DRIVER, CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n) {
    return edges(g, from, to, data, n, true);
}

CALL(cuGraphNodeGetDependencies, CALL_DRIVER, CUgraphNode node, CUgraphNode *out, size_t *n) {
    INVALID_IF(!node || !n);
    struct list l = list_begin(out, NULL, NULL, n);
    for (size_t i = 0; i < node->after_count; i++) {
        if (out && hides(&node->after[i], NULL))
            return CUDA_ERROR_LOSSY_QUERY;
        list_add(&l, node->after[i].from, NULL, NULL);
    }
    return list_end(&l, n);
}

static CUresult check_pairs(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool there) {
    INVALID_IF(!g || (n && (!from || !to)));
    for (size_t i = 0; i < n; i++)
        INVALID_IF(!from[i] || !to[i] || from[i]->graph != g || to[i]->graph != g || from[i] == to[i] ||
                   node_has_edge(to[i], from[i]) != there);
    return CUDA_SUCCESS;
}

CALL(cuGraphAddDependencies, CALL_DRIVER, CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    TRY(check_pairs(g, from, to, n, false));
    for (size_t i = 0; i < n; i++)
        if (!node_add_edge(to[i], from[i], NULL))
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

CALL(cuGraphRemoveDependencies, CALL_DRIVER, CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    TRY(check_pairs(g, from, to, n, true));
    for (size_t i = 0; i < n; i++)
        node_remove_edge(to[i], from[i]);
    return CUDA_SUCCESS;
}
