#include "interpose/account/graph_memory.h"

#include <stdlib.h>

#include "base/larger.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver/context.h"
#include "driver/graph_order.h"
#include "driver/node.h"
#include "driver/session.h"
#include "interpose/account/reserved.h"

/* --- what a graph needs --- */

enum { SETS_MOST = 64 << 20 }; /* bytes; a larger graph counts as if it freed nothing before its end */

struct alloc {
    CUgraphNode node; /* that makes it */
    CUdeviceptr start;
    uint64_t bytes;
    bool freed, begun;
};

/* A graph while it is read. */
struct reading {
    struct graph_order order;
    struct alloc *alloc;
    size_t allocs, words;
    uint64_t *sets; /* for each node in order, `words` of them: the allocations that are freed before it is done */
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

static bool read_allocs(CUgraph graph, struct reading *r) {
    CUgraphNode *nodes;
    size_t count;
    bool read = graph_nodes(graph, &nodes, &count) && (r->alloc = calloc(count + 1, sizeof *r->alloc));
    for (size_t i = 0; read && i < count; i++) {
        struct alloc *a = &r->alloc[r->allocs];
        a->node = nodes[i];
        a->bytes = allocated_by(nodes[i], &a->start);
        r->allocs += a->bytes > 0;
    }
    free(nodes);
    return read;
}

static uint64_t *set_of(const struct reading *r, size_t place) {
    return r->sets + place * r->words;
}

/* Bytes that may be there while the allocation is made there: its own, and those begun that are not surely freed. */
static uint64_t beside(const struct reading *r, const struct alloc *own, size_t place) {
    const uint64_t *freed = set_of(r, place);
    uint64_t bytes = own->bytes;
    for (size_t i = 0; i < r->allocs; i++)
        if (r->alloc[i].begun && !(freed[i / 64] >> i % 64 & 1))
            bytes += r->alloc[i].bytes;
    return bytes;
}

static void visit(struct reading *r, size_t place, uint64_t *most) {
    CUgraphNode node = r->order.nodes[place];
    struct alloc *gone = freed_by(r, node);
    size_t number = gone ? (size_t)(gone - r->alloc) : 0;
    if (gone) {
        set_of(r, place)[number / 64] |= 1ull << number % 64;
        gone->freed = true;
    }
    for (struct alloc *a = r->alloc; a < r->alloc + r->allocs; a++)
        if (a->node == node) {
            *most = larger(*most, beside(r, a, place));
            a->begun = true;
        }
}

static bool find_most(CUgraph graph, struct reading *r, uint64_t *most) {
    struct graph_order *o = &r->order;
    r->words = (r->allocs + 63) / 64;
    if (!graph_order(graph, o) || o->count * r->words > SETS_MOST / sizeof *r->sets ||
        !(r->sets = calloc(o->count * r->words, sizeof *r->sets)))
        return false;
    for (size_t i = 0; i < o->count; i++) {
        visit(r, i, most);
        for (size_t e = o->first[i]; e < o->first[i + 1]; e++)
            for (size_t word = 0; word < r->words; word++)
                set_of(r, o->edges[e].to)[word] |= set_of(r, i)[word];
    }
    return true;
}

struct graph_memory graph_memory_of(CUgraph graph) {
    struct graph_memory g = {0};
    struct reading r = {0};
    if (!session_on || !graph || !read_allocs(graph, &r))
        r.allocs = 0;
    bool known = r.allocs && find_most(graph, &r, &g.most);
    for (const struct alloc *a = r.alloc; r.allocs && a < r.alloc + r.allocs; a++) {
        g.most += known ? 0 : a->bytes;
        g.left += known && a->freed ? 0 : a->bytes;
    }
    graph_order_free(&r.order);
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
