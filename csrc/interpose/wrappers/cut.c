/* Large graphs, in pieces. The pieces are made of a copy of the graph, as the driver does not tell what an
 * executable graph does: so they carry all that nodes carry, attributes and contexts too. */
#include "interpose/wrappers/cut.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/patience.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/record/parameters.h"
#include "interpose/record/wrap.h"
#include "interpose/wrappers/graph.h"
#include "interpose/wrappers/pieces.h"
#include "observe/stats.h"

/* A graph is large that touches more than one in so many of the bytes that pages may occupy: whole, it waits until all
 * of them are there, and keeps all until it ends. A piece touches about one in so many: most stay for the next launch.
 */
enum { LARGE = 4, A_PIECE = 16 };

struct cut {
    CUgraph copy; /* of what the executable graph does; NULL: not known, or it is not large */
    CUgraphNode *nodes;
    size_t count;
    struct hash disabled;
    unsigned long long flags;
    uint64_t bytes; /* that it touches, in whole pages; 0: to be summed up */
    struct piece *piece;
    size_t pieces; /* 0: none were made, or can be */
    uint64_t room; /* for which they were made; 0: they are to be */
    CUevent over;  /* behind the last launch, if that is `marked` */
    CUcontext context;
    bool launched, marked;
};

static bool moves(void) {
    return __atomic_load_n(&backend_moves, __ATOMIC_RELAXED) & BACKEND_MOVES;
}

/* Bytes that pages may occupy of the device of the current context. */
static uint64_t room(void) {
    int device = context_device();
    return session.backend->room && device != DEVICE_NONE ? session.backend->room(device) : UINT64_MAX;
}

/* --- the copy --- */

static void drop_pieces(struct cut *c) {
    pieces_free(c->piece, c->pieces);
    c->piece = NULL;
    c->pieces = 0;
    c->room = 0;
}

void cut_lose(struct cut *c) {
    drop_pieces(c);
    if (c->copy) {
        graph_forget(c->copy);
        REAL(cuGraphDestroy, 0)(c->copy);
    }
    c->copy = NULL;
    free(c->nodes);
    c->nodes = NULL;
    c->count = 0;
    hash_delete(&c->disabled);
}

/* What runs as it would alone: memory of graphs and what kernels launch or choose are bound to the graph. */
static bool may_cut(CUgraphNode node) {
    CUgraphNodeType type;
    if (REAL(cuGraphNodeGetType, 0)(node, &type) != CUDA_SUCCESS)
        return false;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return true;
    default:
        return false;
    }
}

static bool may_cut_all(CUgraph graph) {
    CUgraphNode *nodes;
    size_t n;
    bool may = graph_nodes(graph, &nodes, &n);
    for (size_t i = 0; may && i < n; i++) {
        CUgraph child = node_child(nodes[i]);
        may = may_cut(nodes[i]) && (!child || may_cut_all(child));
    }
    free(nodes);
    return may;
}

/* What is kept of nodes goes by their places. */
static bool copy(struct cut *c, CUgraph graph) {
    if (!may_cut_all(graph) || REAL(cuGraphClone, 0)(&c->copy, graph) != CUDA_SUCCESS)
        return false;
    graph_copied(graph, c->copy);
    graph_note(c->copy);
    CUgraphNode *nodes, copy;
    size_t n;
    bool good = graph_nodes(graph, &nodes, &n) && graph_nodes(c->copy, &c->nodes, &c->count) && n == c->count;
    for (size_t i = 0; good && i < n; i++)
        good = REAL(cuGraphNodeFindInClone, 0)(&copy, nodes[i], c->copy) == CUDA_SUCCESS && copy == c->nodes[i];
    free(nodes);
    return good;
}

struct cut *cut_renew(struct cut *c, CUgraph graph, unsigned long long flags, const struct node *sum, bool launched) {
    if (c)
        cut_lose(c);
    bool comes_again = launched && !moves(); /* it is updated, perhaps before each launch */
    uint64_t bytes = sum && session.backend->room && !comes_again ? pieces_bytes(sum) : 0;
    if (!bytes || bytes <= room() / LARGE)
        return c;
    if (!c && (c = calloc(1, sizeof *c)))
        c->launched = launched;
    if (c) {
        c->flags = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        c->bytes = bytes;
        if (!copy(c, graph))
            cut_lose(c);
    }
    return c;
}

/* Its context may be gone, and has taken it. */
static void drop_event(struct cut *c) {
    struct context_visit v;
    if (c->over && context_visit(&v, c->context) == CUDA_SUCCESS) {
        REAL(cuEventDestroy_v2, 0)(c->over);
        context_visited(&v);
    }
    c->over = NULL;
}

void cut_free(struct cut *c) {
    if (!c)
        return;
    cut_lose(c);
    drop_event(c);
    free(c);
}

void cut_set(struct cut *c, size_t number, CUgraphNodeParams *p, const struct op *op) {
    bool known = c->copy && number < c->count && p->type != CU_GRAPH_NODE_TYPE_GRAPH;
    drop_pieces(c);
    c->bytes = 0;
    if (known &&
        parameters_taken(parameters_refused(p) ?: REAL(cuGraphNodeSetParams, 0)(c->nodes[number], p)) == CUDA_SUCCESS)
        node_note(c->nodes[number], op);
    else
        cut_lose(c);
}

void cut_enable(struct cut *c, size_t number, bool enabled) {
    bool stored = c->copy && number < c->count;
    drop_pieces(c);
    c->bytes = 0;
    if (stored && enabled)
        hash_take(&c->disabled, (uint64_t)(uintptr_t)c->nodes[number]);
    else if (stored)
        hash_put(&c->disabled, (uint64_t)(uintptr_t)c->nodes[number], c, &stored);
    if (!stored)
        cut_lose(c);
}

/* --- launches --- */

static void make_pieces(struct cut *c, uint64_t for_room) {
    struct relaxed relaxed = capture_relax();
    if (capture_allows(relaxed))
        c->pieces = pieces_make(c->copy, &c->disabled, c->flags, for_room / A_PIECE, &c->piece);
    capture_restore(relaxed);
    c->room = for_room;
    log_debug("a graph that touches %llu MiB is launched in %zu pieces", (unsigned long long)(c->bytes >> 20),
              c->pieces);
}

/* And pages move. */
static bool is_large(struct cut *c, const struct node *sum, uint64_t now) {
    if (!c->copy || !sum || now == UINT64_MAX)
        return false;
    if (!c->bytes)
        c->bytes = pieces_bytes(sum);
    return c->bytes > now / LARGE;
}

bool cut_before(struct cut *c, const struct op *op, const struct node *sum) {
    uint64_t now = moves() ? room() : UINT64_MAX; /* 0: it is suspended; what there will be is not known */
    now = now ? now : UINT64_MAX;
    bool wanted = is_large(c, sum, now), known = !c->launched || c->marked;
    if (c->marked && REAL(cuStreamWaitEvent, 0)((CUstream)(uintptr_t)op->stream, c->over, 0) != CUDA_SUCCESS)
        context_idle(c->context, PATIENCE_NS);
    c->marked = c->marked || wanted; /* from now on */
    if (!wanted || !known)
        return false;
    if (c->room && now < c->room / 2)
        drop_pieces(c);
    if (!c->room)
        make_pieces(c, now);
    return c->pieces > 0;
}

CUresult cut_launch(const struct cut *c, struct op *op, int variant, CUstream stream) {
    CUresult status = CUDA_SUCCESS;
    stats_add(COUNT_graphs_cut, 1);
    for (size_t i = 0; i < c->pieces && status == CUDA_SUCCESS; i++) {
        const struct piece *p = &c->piece[i];
        bool ours = i == 0 || wrap_open(op, API_cuGraphLaunch, OP_GRAPH, stream_key(variant, stream));
        if (ours) {
            node_fill(op, p->sum);
            op->object = (uint64_t)(uintptr_t)p->exec;
            wrap_admit(op);
        }
        status = RUN(ours ? op : NULL, REAL(cuGraphLaunch, variant)(p->exec, stream));
        if (ours)
            wrap_close(op, status);
    }
    return status;
}

/* The event has to be of the stream's context. */
static bool mark(struct cut *c, CUstream stream) {
    CUcontext before;
    if (c->over && REAL(cuEventRecord, 0)(c->over, stream) == CUDA_SUCCESS)
        return true;
    drop_event(c);
    bool entered = context_enter_stream(0, stream, &before);
    c->context = (CUcontext)(uintptr_t)context_current();
    bool made = REAL(cuEventCreate, 0)(&c->over, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    if (entered)
        context_leave(before);
    if (made && REAL(cuEventRecord, 0)(c->over, stream) == CUDA_SUCCESS)
        return true;
    c->over = made ? c->over : NULL;
    return false;
}

/* Where no event can be recorded the program waits, once. */
void cut_after(struct cut *c, uint64_t stream) {
    c->launched = true;
    if (!c->marked)
        return;
    struct relaxed relaxed = capture_relax();
    c->marked = mark(c, (CUstream)(uintptr_t)stream);
    if (!c->marked)
        c->launched = context_idle(c->context, PATIENCE_NS) != CUDA_SUCCESS;
    capture_restore(relaxed);
}
