#include "interpose/account/graph_memory.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/larger.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver/context.h"
#include "driver/node.h"
#include "driver/session.h"
#include "interpose/account/reserved.h"

/* --- what a graph needs --- */

enum { SETS_MOST = 64 << 20 }; /* bytes; a larger graph counts as if it freed nothing before its end */

struct alloc {
    size_t node; /* its number in the graph */
    CUdeviceptr start;
    uint64_t bytes;
    bool freed, begun;
};

/* A graph while it is read. */
struct reading {
    CUgraphNode *nodes;
    CUgraphNode *from, *to; /* its edges */
    struct alloc *alloc;
    size_t count, edges, allocs, words;
    uint64_t *sets; /* for each node, `words` of them: the allocations that are freed before it is done */
};

static CUgraphNodeType type_of(CUgraphNode node) {
    CUgraphNodeType type;
    return REAL(cuGraphNodeGetType, 0)(node, &type) == CUDA_SUCCESS ? type : CU_GRAPH_NODE_TYPE_EMPTY;
}

/* A child's memory counts from its node on. */
static uint64_t allocated_by(CUgraphNode node, CUdeviceptr *start) {
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 p;
    CUgraphNodeType type = type_of(node);
    *start = 0;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH)
        return graph_memory_of(node_child(node)).most;
    if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || REAL(cuGraphMemAllocNodeGetParams, 0)(node, (void *)&p) != CUDA_SUCCESS)
        return 0;
    *start = p.dptr;
    return whole_grains(p.bytesize);
}

static struct alloc *alloc_at(const struct reading *r, CUdeviceptr start) {
    for (struct alloc *a = r->alloc; start && a < r->alloc + r->allocs; a++)
        if (a->start == start)
            return a;
    return NULL;
}

static struct alloc *freed_by(const struct reading *r, CUgraphNode node) {
    CUdeviceptr start;
    bool frees = type_of(node) == CU_GRAPH_NODE_TYPE_MEM_FREE &&
                 REAL(cuGraphMemFreeNodeGetParams, 0)(node, &start) == CUDA_SUCCESS;
    return frees ? alloc_at(r, start) : NULL;
}

static bool read_allocs(struct reading *r) {
    r->alloc = calloc(r->count + 1, sizeof *r->alloc);
    for (size_t i = 0; r->alloc && i < r->count; i++) {
        struct alloc *a = &r->alloc[r->allocs];
        a->node = i;
        a->bytes = allocated_by(r->nodes[i], &a->start);
        r->allocs += a->bytes > 0;
    }
    return r->alloc;
}

static bool get_edges(CUgraph graph, struct reading *r) {
    CUgraphEdgeData *data = calloc(r->edges + 1, sizeof *data);
    bool got = data && (REAL(cuGraphGetEdges_v2, 0)(graph, r->from, r->to, data, &r->edges) == CUDA_SUCCESS ||
                        REAL(cuGraphGetEdges, 0)(graph, r->from, r->to, &r->edges) == CUDA_SUCCESS);
    free(data);
    return got;
}

static bool read_edges(CUgraph graph, struct reading *r) {
    if (REAL(cuGraphGetEdges_v2, 0)(graph, NULL, NULL, NULL, &r->edges) != CUDA_SUCCESS &&
        REAL(cuGraphGetEdges, 0)(graph, NULL, NULL, &r->edges) != CUDA_SUCCESS)
        return false;
    r->from = calloc(r->edges + 1, sizeof *r->from);
    r->to = calloc(r->edges + 1, sizeof *r->to);
    return r->from && r->to && (r->edges == 0 || get_edges(graph, r));
}

static uint64_t *set_of(const struct reading *r, size_t node) {
    return r->sets + node * r->words;
}

/* Bytes that may be there while the allocation is made: its own, and those begun that are not surely freed by then. */
static uint64_t beside(const struct reading *r, const struct alloc *own) {
    const uint64_t *freed = set_of(r, own->node);
    uint64_t bytes = own->bytes;
    for (size_t i = 0; i < r->allocs; i++)
        if (r->alloc[i].begun && !(freed[i / 64] >> i % 64 & 1))
            bytes += r->alloc[i].bytes;
    return bytes;
}

static void visit(struct reading *r, size_t node, uint64_t *most) {
    struct alloc *gone = freed_by(r, r->nodes[node]);
    size_t number = gone ? (size_t)(gone - r->alloc) : 0;
    if (gone) {
        set_of(r, node)[number / 64] |= 1ull << number % 64;
        gone->freed = true;
    }
    for (struct alloc *a = r->alloc; a < r->alloc + r->allocs; a++)
        if (a->node == node) {
            uint64_t now = beside(r, a);
            *most = now > *most ? now : *most;
            a->begun = true;
        }
}

/* Edges by the node that they come from: those of node n are order[first[n]] to order[first[n + 1] - 1]. */
struct walk {
    size_t *first, *order, *waits, *ready;
};

static size_t number_of(struct hash *numbers, CUgraphNode node) {
    return (size_t)(uintptr_t)hash_get(numbers, (uint64_t)(uintptr_t)node) - 1;
}

static bool prepare(struct walk *w, const struct reading *r, struct hash *numbers) {
    bool stored = true;
    *w = (struct walk){.first = calloc(r->count + 2, sizeof *w->first),
                       .order = calloc(r->edges + 1, sizeof *w->order),
                       .waits = calloc(r->count + 1, sizeof *w->waits),
                       .ready = calloc(r->count + 1, sizeof *w->ready)};
    if (!w->first || !w->order || !w->waits || !w->ready)
        return false;
    for (size_t i = 0; i < r->count && stored; i++)
        hash_put(numbers, (uint64_t)(uintptr_t)r->nodes[i], (void *)(uintptr_t)(i + 1), &stored);
    for (size_t e = 0; stored && e < r->edges; e++) {
        w->first[number_of(numbers, r->from[e]) + 2]++;
        w->waits[number_of(numbers, r->to[e])]++;
    }
    for (size_t i = 2; stored && i < r->count + 2; i++)
        w->first[i] += w->first[i - 1];
    for (size_t e = 0; stored && e < r->edges; e++)
        w->order[w->first[number_of(numbers, r->from[e]) + 1]++] = number_of(numbers, r->to[e]);
    return stored;
}

/* Each node after all those that it depends on. */
static void walk(struct walk *w, struct reading *r, uint64_t *most) {
    size_t begin = 0, end = 0;
    for (size_t i = 0; i < r->count; i++)
        if (w->waits[i] == 0)
            w->ready[end++] = i;
    for (; begin < end; begin++) {
        size_t node = w->ready[begin];
        visit(r, node, most);
        for (size_t e = w->first[node]; e < w->first[node + 1]; e++) {
            size_t next = w->order[e];
            for (size_t i = 0; i < r->words; i++)
                set_of(r, next)[i] |= set_of(r, node)[i];
            if (--w->waits[next] == 0)
                w->ready[end++] = next;
        }
    }
}

static bool find_most(CUgraph graph, struct reading *r, uint64_t *most) {
    struct hash numbers = {.count = 0};
    struct walk w = {0};
    r->words = (r->allocs + 63) / 64;
    bool known = r->count * r->words <= SETS_MOST / sizeof *r->sets &&
                 (r->sets = calloc(r->count * r->words, sizeof *r->sets)) && read_edges(graph, r) &&
                 prepare(&w, r, &numbers);
    if (known)
        walk(&w, r, most);
    free(w.first);
    free(w.order);
    free(w.waits);
    free(w.ready);
    hash_delete(&numbers);
    return known;
}

struct graph_memory graph_memory_of(CUgraph graph) {
    struct graph_memory g = {0};
    struct reading r = {0};
    if (!session_on || !graph || !graph_nodes(graph, &r.nodes, &r.count) || !read_allocs(&r))
        r.allocs = 0;
    bool known = r.allocs && find_most(graph, &r, &g.most);
    for (const struct alloc *a = r.alloc; r.allocs && a < r.alloc + r.allocs; a++) {
        g.most += known ? 0 : a->bytes;
        g.left += known && a->freed ? 0 : a->bytes;
    }
    free(r.nodes);
    free(r.from);
    free(r.to);
    free(r.alloc);
    free(r.sets);
    return g;
}

/* --- what launches need together --- */

/* The driver lets launches in one stream share memory, as they come after each other. */
struct lane {
    uint64_t stream;
    int device;
    uint64_t most;
    struct lane *next;
};

static struct lock lock; /* of what follows */
static struct lane *lanes;
static uint64_t left[DEVICE_MAX]; /* bytes that launches of this round left allocated */
static uint64_t rounds = 1;       /* one ends when nothing runs and what is unused was given back */
static uint64_t most[DEVICE_MAX]; /* bytes that launches of this round were ever thought to need */
static uint64_t kept[DEVICE_MAX]; /* bytes that the driver held when the last one was launched */

/* NULL: no memory. Under the lock. */
static struct lane *lane_of(uint64_t stream, int device) {
    struct lane *l = lanes;
    while (l && (l->stream != stream || l->device != device))
        l = l->next;
    if (!l && (l = malloc(sizeof *l))) {
        *l = (struct lane){.stream = stream, .device = device, .next = lanes};
        lanes = l;
    }
    return l;
}

/* Bytes that all launches of this round need, with one more. Counts it. */
static uint64_t needed(int device, uint64_t stream, struct graph_memory *g) {
    lock_take(&lock);
    struct lane *own = lane_of(stream, device);
    uint64_t bytes = left[device] + (own ? 0 : g->most);
    if (g->round == rounds)
        bytes -= g->left < bytes ? g->left : bytes; /* the same addresses serve again */
    else
        left[device] += g->left;
    g->round = rounds;
    if (own && own->most < g->most)
        own->most = g->most;
    for (const struct lane *l = lanes; l; l = l->next)
        bytes += l->device == device ? l->most : 0;
    lock_drop(&lock);
    return bytes;
}

static void next_round(void) {
    lock_take(&lock);
    for (struct lane *l = lanes; l; l = l->next)
        l->most = 0;
    for (int d = 0; d < DEVICE_MAX; d++)
        left[d] = 0;
    rounds++;
    lock_drop(&lock);
}

/* Once what is in flight is over, what the driver holds is what nobody has freed. */
static bool make_room(struct charge *c, uint64_t stream, struct graph_memory *g) {
    context_idle((CUcontext)(uintptr_t)context_current(), PATIENCE_NS);
    reserved_give_back(c->device);
    next_round();
    c->bytes = needed(c->device, stream, g);
    return reserved_make_room(c->device, MEMORY_GRAPH, c->bytes);
}

/* Bytes that the driver will take beyond what it holds, and what was thought to be needed: it may do with less. Once it
 * was trimmed, what it holds counts. */
static uint64_t grows_by(int device, uint64_t held, uint64_t needs) {
    lock_take(&lock);
    if (held < kept[device])
        most[device] = held;
    uint64_t before = larger(most[device], held);
    most[device] = larger(most[device], needs);
    lock_drop(&lock);
    return needs > before ? needs - before : 0;
}

static bool open(struct charge *c, struct graph_memory *g, uint64_t stream) {
    int device = context_device();
    *c = (struct charge){.recorded = true, .device = device, .kind = MEMORY_GRAPH, .asked = g->most};
    reserved_know_graphs(device);
    uint64_t held = reserved_by_graphs(device), needs = needed(device, stream, g);
    if (!charge_limited(device, MEMORY_GRAPH)) {
        charge_comes(c, grows_by(device, held, needs));
        return true;
    }
    c->bytes = needs > held ? needs - held : 0;
    if (!c->bytes || ledger_reserve(session.ledger, device, c->bytes) || make_room(c, stream, g))
        return true;
    c->bytes = 0;
    charge_refuse(c, g->most);
    return false;
}

bool graph_memory_open(struct charge *c, struct graph_memory *g, uint64_t stream) {
    section_begin();
    bool opened = open(c, g, stream);
    charge_keep(c);
    section_end();
    return opened;
}

void graph_memory_close(struct charge *c, CUresult status) {
    section_begin();
    c->status = status;
    reserved_look(c->device);
    uint64_t held = reserved_by_graphs(c->device);
    lock_take(&lock);
    kept[c->device] = held;
    lock_drop(&lock);
    charge_came(c);
    ledger_cancel(session.ledger, c->device, c->bytes);
    c->bytes = 0;
    charge_keep(c);
    section_end();
}
