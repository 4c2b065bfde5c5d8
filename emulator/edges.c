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
    if (!g || !n)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = list_begin(out, NULL, NULL, n);
    for (CUgraphNode node = g->first; node; node = node->next)
        if (!roots || node->after_count == 0)
            list_add(&l, node, NULL, NULL);
    return list_end(&l, n);
}

EXPORT CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *out, size_t *n) {
    BEGIN(CALL_DRIVER);
    return nodes(g, out, n, false);
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *out, size_t *n) {
    BEGIN(CALL_DRIVER);
    return nodes(g, out, n, true);
}

static CUresult edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n,
                      bool wants_data) {
    if (!g || !n || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
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

EXPORT CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n) {
    BEGIN(CALL_DRIVER);
    return edges(g, from, to, NULL, n, false);
}

EXPORT CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n) {
    BEGIN(CALL_DRIVER);
    return edges(g, from, to, data, n, true);
}

static CUresult before(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n) {
    if (!node || !n)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = list_begin(out, NULL, data, n);
    for (size_t i = 0; i < node->after_count; i++) {
        if (out && hides(&node->after[i], data))
            return CUDA_ERROR_LOSSY_QUERY;
        list_add(&l, node->after[i].from, NULL, &node->after[i].data);
    }
    return list_end(&l, n);
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n) {
    BEGIN(CALL_DRIVER);
    return before(node, out, NULL, n);
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n) {
    BEGIN(CALL_DRIVER);
    return before(node, out, data, n);
}

static CUresult behind(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n) {
    if (!node || !n)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = list_begin(out, NULL, data, n);
    for (CUgraphNode other = node->graph->first; other; other = other->next) {
        for (size_t i = 0; i < other->after_count; i++) {
            if (other->after[i].from != node)
                continue;
            if (out && hides(&other->after[i], data))
                return CUDA_ERROR_LOSSY_QUERY;
            list_add(&l, other, NULL, &other->after[i].data);
        }
    }
    return list_end(&l, n);
}

EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *n) {
    BEGIN(CALL_DRIVER);
    return behind(node, out, NULL, n);
}

EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *n) {
    BEGIN(CALL_DRIVER);
    return behind(node, out, data, n);
}

static CUresult check_pairs(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool there) {
    if (!g || (n && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (!from[i] || !to[i] || from[i]->graph != g || to[i]->graph != g || from[i] == to[i] ||
            node_has_edge(to[i], from[i]) != there)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult add(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data, size_t n) {
    CUresult result = check_pairs(g, from, to, n, false);
    for (size_t i = 0; result == CUDA_SUCCESS && i < n; i++)
        if (!node_add_edge(to[i], from[i], data ? &data[i] : NULL))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

static CUresult take_away(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    CUresult result = check_pairs(g, from, to, n, true);
    for (size_t i = 0; result == CUDA_SUCCESS && i < n; i++)
        node_remove_edge(to[i], from[i]);
    return result;
}

EXPORT CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    BEGIN(CALL_DRIVER);
    return add(g, from, to, NULL, n);
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *data, size_t n) {
    BEGIN(CALL_DRIVER);
    return add(g, from, to, data, n);
}

EXPORT CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
    BEGIN(CALL_DRIVER);
    return take_away(g, from, to, n);
}

EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                             const CUgraphEdgeData *data, size_t n) {
    BEGIN(CALL_DRIVER);
    (void)data;
    return take_away(g, from, to, n);
}
