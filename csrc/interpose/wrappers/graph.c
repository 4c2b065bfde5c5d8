/* Instantiated graphs: what one launch of each touches. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/page.h"
#include "driver/node.h"
#include "driver/session.h"
#include "interpose/account/graph_memory.h"
#include "interpose/account/memory.h"
#include "interpose/record/parameters.h"
#include "interpose/record/wrap.h"
#include "interpose/wrappers/cut.h"
#include "interpose/wrappers/graph.h"
#include "observe/trace.h"

/* One node of an executable graph. */
struct part {
    CUgraphNode handle; /* in the graph that it was read from */
    struct node *node;  /* NULL: touches nothing, runs no kernel */
    bool disabled;
    bool beside; /* it may be in the place of another part, whose kernel counts */
};

struct exec {
    struct node *sum; /* of all enabled parts; what a launch touches. NULL: not known */
    size_t parts;
    struct part *part;
    size_t found;    /* behind the last that was looked for */
    struct cut *cut; /* NULL: none of it would fit alone */
    uint64_t flags;  /* of CUgraphInstantiate_flags */
    bool launched;
    bool changed;               /* since the sum was made */
    bool unread;                /* not all of its parts could be had */
    bool doubted;               /* some of its parts may do something else, or nothing, by now */
    bool by_device;             /* kernels may launch it, too */
    struct graph_memory memory; /* that its own nodes allocate */
};

static struct hash execs; /* CUgraphExec -> struct exec */

static void exec_free(struct exec *e) {
    if (!e)
        return;
    for (size_t i = 0; i < e->parts; i++)
        free(e->part[i].node);
    free(e->part);
    free(e->sum);
    cut_free(e->cut);
    free(e);
}

/* What the host memory holds now is what its copies will bring. */
static void look_at_sources(const struct exec *e) {
    for (size_t i = 0; e->sum && e->sum->from && i < e->parts; i++)
        if (e->part[i].node && e->part[i].node->from && !e->part[i].disabled)
            wrap_look(e->part[i].node->from, e->part[i].node->from_bytes);
}

/* Of enum op_flag: what graphs do that kernels may launch. Only kernels of graphs may, of any. */
static uint16_t launched_unseen;

/* A block may have been divided since it was noted: what lies in its place now is used as far as it reached then. */
static void hide_pages(const struct touch *t) {
    for (addr_t p = t->start; p < t->start + t->bytes; p = (p / page_bytes + 1) * page_bytes)
        wrap_hide(p);
}

/* Whoever launches it shows nothing of what it touches. */
static void hide(const struct exec *e) {
    const struct node *sum = e->sum;
    uint16_t flags = sum ? sum->flags : OP_BLIND;
    if (!session.backend->pin_reachable)
        return;
    for (uint32_t i = 0; sum && i < sum->count; i++) {
        hide_pages(&sum->touches[i]);
        flags |= sum->kernels && ledger_is_host_written(session.ledger, sum->touches[i].start) ? OP_HIDES : 0;
    }
    look_at_sources(e);
    __atomic_fetch_or(&launched_unseen, flags, __ATOMIC_RELAXED);
}

/* What a call says that it leaves without meaning may be another's by now. */
static void keep_scratch(struct node *sum) {
    for (uint32_t i = 0; i < sum->count; i++)
        if (sum->touches[i].mode == TOUCH_SCRATCH)
            sum->touches[i].mode = TOUCH_UPDATE;
}

/* NULL: there is no memory. */
static struct node *sum_parts(const struct exec *e) {
    const struct node **enabled = calloc(e->parts + 1, sizeof *enabled);
    for (size_t i = 0; enabled && i < e->parts; i++)
        enabled[i] = e->part[i].disabled ? NULL : e->part[i].node;
    struct node *sum = enabled ? node_sum(enabled, e->parts) : NULL;
    for (size_t i = 0; sum && i < e->parts; i++)
        sum->kernels -= e->part[i].beside && enabled[i] ? enabled[i]->kernels : 0;
    free(enabled);
    return sum;
}

/* Sums up the enabled parts and tells the trace. Called by the thread that changes the graph: CUDA lets no other use an
 * executable graph meanwhile. */
static void exec_sum(CUgraphExec handle, struct exec *e) {
    free(e->sum);
    e->sum = sum_parts(e);
    e->changed = false;
    if (e->sum && e->unread)
        e->sum->flags |= OP_BLIND;
    if (e->sum && e->doubted)
        keep_scratch(e->sum);
    if (e->by_device)
        hide(e);
    if (trace_on && e->sum)
        trace_graph((uint64_t)(uintptr_t)handle, e->sum->kernels, e->sum->touches, e->sum->count);
}

/* As it was noted: extents and modes were known best then. */
static void touch_noted(struct op *op, const struct node *n) {
    uint32_t room = TOUCH_MAX - op->count, count = n->count < room ? n->count : room;
    memcpy(op->touches + op->count, n->touches, count * sizeof *op->touches);
    op->count += count;
    op->kernels = n->kernels;
    op->flags |= n->flags;
    if (n->from)
        wrap_from_host(op, n->from, n->from_bytes);
}

/* Adds what a node touches. */
static void touch_node(struct op *op, CUgraphNode handle) {
    const struct node *noted = node_noted(handle);
    CUgraphNodeParams p;
    if (noted)
        touch_noted(op, noted);
    else if (parameters_read(handle, &p))
        parameters_touch(op, &p);
    else
        op->flags |= OP_BLIND;
    if (!noted && p.type == CU_GRAPH_NODE_TYPE_KERNEL)
        op->kernels = 1;
    if (!noted && p.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        log_warn("a graph has a conditional node: what its body touches is not seen");
}

/* Adds what a whole graph touches, child graphs included: for one part that stands for a child. */
void touch_graph(struct op *op, CUgraph graph) {
    CUgraphNode *nodes;
    size_t n;
    uint32_t kernels = 0;
    bool read = graph_nodes(graph, &nodes, &n);
    if (!read)
        op->flags |= OP_BLIND;
    for (size_t i = 0; read && i < n; i++) {
        op->kernels = 0;
        touch_node(op, nodes[i]);
        kernels += op->kernels;
    }
    op->kernels = kernels;
    free(nodes);
}

void graph_note(CUgraph graph) {
    CUgraphNode *nodes = NULL;
    size_t n;
    struct thread *self = thread_self();
    bool read = self && graph_nodes(graph, &nodes, &n);
    for (size_t i = 0; read && i < n; i++) {
        CUgraph child = node_child(nodes[i]);
        struct op op = {.touches = self->touches};
        if (child)
            graph_note(child);
        else if (!node_noted(nodes[i])) {
            touch_node(&op, nodes[i]);
            node_note(nodes[i], &op);
        }
    }
    free(nodes);
}

/* NULL: there is no memory. */
static struct node *read_node(CUgraphNode handle) {
    struct thread *self = thread_self();
    if (!self)
        return NULL;
    struct op op = {.touches = self->touches};
    touch_node(&op, handle);
    return node_new(&op);
}

static struct exec *read_graph(CUgraph graph) {
    struct exec *e = calloc(1, sizeof *e);
    CUgraphNode *nodes = NULL;
    if (e && graph_nodes(graph, &nodes, &e->parts) && (e->part = calloc(e->parts + 1, sizeof *e->part))) {
        for (size_t i = 0; i < e->parts; i++) {
            e->part[i] = (struct part){.handle = nodes[i], .node = read_node(nodes[i])};
            e->unread = e->unread || !e->part[i].node;
        }
    } else if (e) {
        e->parts = 0;
        e->unread = true;
    }
    free(nodes);
    return e;
}

/* It does what the graph does from now on, unless that is doubted. */
static void keep_copy(struct exec *e, CUgraph graph) {
    if (!e->doubted && !e->by_device)
        e->cut = cut_renew(e->cut, graph, e->flags, e->sum, e->launched);
    else if (e->cut)
        cut_lose(e->cut);
}

/* No update changes what its nodes allocate: the driver takes none from a graph that allocates other memory. */
void exec_made(const CUgraphExec *handle, CUgraph graph, uint64_t flags) {
    struct exec *e = read_graph(graph);
    bool stored = false;
    if (!e)
        return;
    e->memory = graph_memory_of(graph);
    e->flags = flags;
    e->by_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    struct exec *gone = hash_put(&execs, (uint64_t)(uintptr_t)*handle, e, &stored);
    if (gone)
        gone->cut = NULL; /* its context has taken all with it */
    exec_free(gone);
    if (!stored) {
        exec_free(e);
        return;
    }
    exec_sum(*handle, e);
    keep_copy(e, graph);
}

/* Programs set many, mostly in order. */
static struct part *part_of(struct exec *e, CUgraphNode handle) {
    for (size_t i = 0; i < e->parts; i++) {
        size_t at = (e->found + i) % e->parts;
        if (e->part[at].handle != handle)
            continue;
        e->found = at + 1;
        return &e->part[at];
    }
    return NULL;
}

/* What only launches use waits for the next: many parts may change before. */
static void exec_changed(CUgraphExec handle, struct exec *e) {
    e->changed = true;
    if (e->by_device)
        exec_sum(handle, e);
}

/* The executable graph keeps the handles that it was instantiated with: after an update from another graph it is not
 * known which part a node is. Then what it was set to is counted beside all parts. NULL: there is no memory. */
static struct part *part_beside(struct exec *e, CUgraphNode handle) {
    struct part *part = realloc(e->part, (e->parts + 1) * sizeof *part);
    e->doubted = true;
    if (!part)
        return NULL;
    e->part = part;
    part[e->parts] = (struct part){.handle = handle, .beside = true};
    return &part[e->parts++];
}

void exec_set(CUgraphExec handle, CUgraphNode node, CUgraphNodeParams parameters) {
    struct thread *self = thread_self();
    struct exec *e = session_on ? hash_get(&execs, (uint64_t)(uintptr_t)handle) : NULL;
    struct part *p = e ? part_of(e, node) : NULL;
    struct node *set = NULL;
    if (!e)
        return;
    if (self) {
        struct op op = {.touches = self->touches};
        parameters_touch(&op, &parameters);
        set = node_new(&op);
        if (e->cut && p)
            cut_set(e->cut, (size_t)(p - e->part), &parameters, &op);
    }
    if (e->cut && !(p && set))
        cut_lose(e->cut);
    p = p ? p : part_beside(e, node);
    if (p && set) {
        free(p->node);
        p->node = set;
    } else {
        free(set);
        e->unread = e->doubted = true;
    }
    exec_changed(handle, e);
}

void exec_enable(CUgraphExec handle, CUgraphNode node, bool enabled) {
    struct exec *e = session_on ? hash_get(&execs, (uint64_t)(uintptr_t)handle) : NULL;
    struct part *p = e ? part_of(e, node) : NULL;
    if (!e)
        return;
    if (p)
        p->disabled = !enabled;
    if (e->cut && p)
        cut_enable(e->cut, (size_t)(p - e->part), enabled);
    else if (e->cut)
        cut_lose(e->cut);
    e->doubted = e->doubted || !enabled;
    exec_changed(handle, e);
}

/* Whether an update enables what was disabled the driver's documents do not say: it counts as enabled. */
void exec_update(CUgraphExec handle, CUgraph graph) {
    struct exec *old = session_on ? hash_get(&execs, (uint64_t)(uintptr_t)handle) : NULL;
    struct exec *e = old ? read_graph(graph) : NULL;
    if (!e && old) {
        old->unread = old->doubted = true;
        exec_sum(handle, old);
        keep_copy(old, graph);
    }
    if (!e)
        return;
    e->memory = old->memory;
    e->by_device = old->by_device;
    e->doubted = old->doubted;
    e->flags = old->flags;
    e->launched = old->launched;
    e->cut = old->cut;
    old->cut = NULL;
    hash_put(&execs, (uint64_t)(uintptr_t)handle, e, NULL);
    exec_sum(handle, e);
    keep_copy(e, graph);
    exec_free(old);
}

struct exec *exec_take(CUgraphExec handle) {
    return session_on ? hash_take(&execs, (uint64_t)(uintptr_t)handle) : NULL;
}

void exec_destroyed(struct exec *e, CUresult status, CUgraphExec handle) {
    if (e && status != CUDA_SUCCESS) {
        hash_put(&execs, (uint64_t)(uintptr_t)handle, e, NULL);
    } else {
        exec_free(e);
    }
}

static CUresult launch_whole(struct exec *e, struct op *op, int variant, CUgraphExec handle, CUstream stream) {
    struct charge c;
    bool allocates = e && e->memory.most;
    if (allocates && !graph_memory_open(&c, &e->memory, op->stream))
        op->status = c.status;
    wrap_admit(op);
    CUresult status = RUN(op, REAL(cuGraphLaunch, variant)(handle, stream));
    if (allocates)
        graph_memory_close(&c, status);
    wrap_close(op, status);
    return status;
}

CUresult custom_cuGraphLaunch(int variant, CUgraphExec hGraphExec, CUstream hStream) {
    struct op op;
    struct exec *e = session_on ? hash_get(&execs, (uint64_t)(uintptr_t)hGraphExec) : NULL;
    if (e && e->changed)
        exec_sum(hGraphExec, e); /* the trace has it before the launch */
    if (!wrap_open(&op, API_cuGraphLaunch, OP_GRAPH, stream_key(variant, hStream)))
        return REAL(cuGraphLaunch, variant)(hGraphExec, hStream);
    bool runs = e && !(op.flags & OP_CAPTURED);
    struct cut *cut = runs ? e->cut : NULL;
    uint16_t unseen = __atomic_load_n(&launched_unseen, __ATOMIC_RELAXED);
    op.object = (uint64_t)(uintptr_t)hGraphExec;
    op.flags |= (e && e->sum ? 0 : OP_BLIND) | unseen;
    if (e && e->sum) {
        node_fill(&op, e->sum);
        look_at_sources(e);
    }
    bool pieces = cut && cut_before(cut, &op, e->sum) && !unseen;
    CUresult status =
        pieces ? cut_launch(cut, &op, variant, hStream) : launch_whole(e, &op, variant, hGraphExec, hStream);
    if (cut)
        cut_after(cut, stream_key(variant, hStream));
    if (runs)
        e->launched = true;
    return status;
}
