#include "driver/graph_order.h"

#include <stdlib.h>

#include "base/hash.h"
#include "driver/node.h"
#include "driver/real.h"

/* As the driver tells them. */
struct told {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t count;
};

/* Older drivers have only the second question, which is refused where an edge carries data. */
static CUresult graph_ask(CUgraph graph, struct told *t) {
    CUresult status = REAL(cuGraphGetEdges_v2, 0)(graph, t->from, t->to, t->data, &t->count);
    return status == CUDA_SUCCESS ? status : REAL(cuGraphGetEdges, 0)(graph, t->from, t->to, &t->count);
}

static bool read_edges(CUgraph graph, struct told *t) {
    if (graph_ask(graph, t) != CUDA_SUCCESS)
        return false;
    t->from = calloc(t->count + 1, sizeof *t->from);
    t->to = calloc(t->count + 1, sizeof *t->to);
    t->data = calloc(t->count + 1, sizeof *t->data);
    return t->from && t->to && t->data && (t->count == 0 || graph_ask(graph, t) == CUDA_SUCCESS);
}

/* Nodes by number, as the driver lists them. */
struct walk {
    CUgraphNode *nodes;
    struct hash numbers; /* node -> its number, from 1 */
    size_t *waits;       /* for so many before it */
    size_t *place;       /* in the order; SIZE_MAX: none yet */
    size_t *number;      /* of the node in that place */
};

static size_t number_of(struct walk *w, CUgraphNode node) {
    return (size_t)(uintptr_t)hash_get(&w->numbers, (uint64_t)(uintptr_t)node) - 1;
}

static bool prepare(struct walk *w, size_t count) {
    bool stored = true;
    w->waits = calloc(count + 1, sizeof *w->waits);
    w->place = calloc(count + 1, sizeof *w->place);
    w->number = calloc(count + 1, sizeof *w->number);
    if (!w->waits || !w->place || !w->number)
        return false;
    for (size_t i = 0; i < count && stored; i++) {
        hash_put(&w->numbers, (uint64_t)(uintptr_t)w->nodes[i], (void *)(uintptr_t)(i + 1), &stored);
        w->place[i] = SIZE_MAX;
    }
    return stored;
}

/* By the number of the node at which they begin; `to` is a number, too. */
static void sort_edges(struct graph_order *o, struct walk *w, const struct told *t) {
    for (size_t e = 0; e < t->count; e++) {
        o->first[number_of(w, t->from[e]) + 2]++;
        w->waits[number_of(w, t->to[e])]++;
    }
    for (size_t i = 2; i < o->count + 2; i++)
        o->first[i] += o->first[i - 1];
    for (size_t e = 0; e < t->count; e++)
        o->edges[o->first[number_of(w, t->from[e]) + 1]++] =
            (struct graph_edge){number_of(w, t->to[e]), t->data[e].type || t->data[e].from_port};
}

/* False: some nodes wait for each other. */
static bool place_nodes(const struct graph_order *o, struct walk *w) {
    size_t done = 0;
    for (size_t i = 0, next; i < o->count; i = next) {
        next = i + 1;
        if (w->waits[i] > 0 || w->place[i] != SIZE_MAX)
            continue;
        w->place[i] = done;
        w->number[done++] = i;
        for (size_t e = o->first[i]; e < o->first[i + 1]; e++)
            if (--w->waits[o->edges[e].to] == 0 && o->edges[e].to < next)
                next = o->edges[e].to;
    }
    return done == o->count;
}

/* From numbers to places. */
static bool arrange(struct graph_order *o, const struct walk *w, size_t edges) {
    struct graph_order to = {.count = o->count,
                             .nodes = calloc(o->count + 1, sizeof *to.nodes),
                             .first = calloc(o->count + 1, sizeof *to.first),
                             .edges = calloc(edges + 1, sizeof *to.edges)};
    bool good = to.nodes && to.first && to.edges;
    for (size_t i = 0, n = 0; good && i < o->count; i++) {
        size_t number = w->number[i];
        to.nodes[i] = w->nodes[number];
        for (size_t e = o->first[number]; e < o->first[number + 1]; e++)
            to.edges[n++] = (struct graph_edge){w->place[o->edges[e].to], o->edges[e].programmatic};
        to.first[i + 1] = n;
    }
    graph_order_free(good ? o : &to);
    if (good)
        *o = to;
    return good;
}

bool graph_order(CUgraph graph, struct graph_order *o) {
    struct walk w = {0};
    struct told t = {0};
    *o = (struct graph_order){0};
    bool good = graph_nodes(graph, &w.nodes, &o->count) && read_edges(graph, &t) && prepare(&w, o->count) &&
                (o->first = calloc(o->count + 2, sizeof *o->first)) &&
                (o->edges = calloc(t.count + 1, sizeof *o->edges));
    if (good) {
        sort_edges(o, &w, &t);
        good = place_nodes(o, &w) && arrange(o, &w, t.count);
    }
    if (!good)
        graph_order_free(o);
    hash_delete(&w.numbers);
    free(w.nodes);
    free(w.waits);
    free(w.place);
    free(w.number);
    free(t.from);
    free(t.to);
    free(t.data);
    return good;
}

void graph_order_free(struct graph_order *o) {
    free(o->nodes);
    free(o->first);
    free(o->edges);
    *o = (struct graph_order){0};
}
