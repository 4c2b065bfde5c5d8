/* Graphs of a few works, captured or made by hand, launched again and again, and brought up to date when addresses or
 * sizes have changed. */
#include "random_program.h"

enum { GRAPH_STEPS = 6, ALLOCATED = 3 * MIB, WORD_OFFSET = 4096 };

void graph_draw(struct actor *a, struct graph *g) {
    bool alone = a->actors == 1;
    *g = (struct graph){.count = 2 + (int)random_below(a, GRAPH_STEPS - 1), .by_hand = one_in(a, 3)};
    g->allocates = !g->by_hand && one_in(a, 4);
    g->inside = !g->by_hand && !g->allocates && one_in(a, 2);
    g->words = g->by_hand && !one_in(a, 4);
    g->stream = alone ? PER_THREAD + (int)random_below(a, 3) : FREE;
    g->second = one_in(a, 2) ? SECOND_FREE : g->stream;
    for (int i = 0; i < g->count; i++) {
        struct step *s = &g->steps[i];
        step_draw(a, s, (enum step_kind)random_below(a, STEP_WORKS));
        for (int k = 0; k < 2; k++)
            if (s->block[k] == OPERAND_PAGEABLE)
                s->block[k] = OPERAND_HOST;
    }
}

static bool hides(const struct graph *g) {
    for (int i = 0; i < g->count; i++)
        if (g->steps[i].kind == STEP_GATHER || g->steps[i].kind == STEP_SCATTER || g->steps[i].kind == STEP_HIDDEN)
            return true;
    return false;
}

static uint64_t signature(struct actor *a, const struct graph *g) {
    uint64_t sum = work_pointed_version(a) * 31 + a->shape;
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < 3; k++)
            sum = sum * 31 + operand(a, g->steps[i].block[k])->version;
    return sum;
}

/* --- capture --- */

static void captured_follow(struct actor *a, int s, int other) {
    CUevent e = a->event[a->next_event++ % EVENTS].handle;
    if (s == other)
        return;
    CU(cuEventRecord, e, a->stream[other]);
    CU(cuStreamWaitEvent, a->stream[s], e, 0);
}

/* Memory that lives inside the graph only. */
static void capture_memory(struct actor *a, const struct graph *g) {
    CUdeviceptr p;
    CUstream s = a->stream[g->stream];
    struct work w = {.kind = WORK_LAUNCH};
    struct block *y = operand(a, g->steps[0].block[0]);
    uint64_t words = (y->bytes < ALLOCATED ? y->bytes : ALLOCATED) / 4;
    CU(cuMemAllocAsync, &p, ALLOCATED, s);
    CU(cuMemsetD32Async, p, g->steps[0].key, ALLOCATED / 4, s);
    w.arguments = kernel_mix(y->start, p, words, g->steps[0].key);
    work_issue(a, &g->steps[0], &w, g->stream);
    CU(cuMemFreeAsync, p, s);
}

static CUgraph capture(struct actor *a, struct graph *g) {
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_GLOBAL};
    CUgraph made;
    int now = g->stream;
    CU(cuStreamBeginCapture_v2, a->stream[g->stream], modes[random_below(a, a->actors == 1 ? 3 : 2)]);
    a->capturing = true;
    away_bound(1);
    if (g->allocates)
        capture_memory(a, g);
    for (int i = 0; i < g->count; i++) {
        struct work w;
        int stream = i > 0 && g->steps[i].key % 2 ? g->second : g->stream;
        captured_follow(a, stream, now);
        now = stream;
        work_prepare(a, &g->steps[i], &w);
        work_issue(a, &g->steps[i], &w, stream);
    }
    captured_follow(a, g->stream, now);
    a->capturing = false;
    CU(cuStreamEndCapture, a->stream[g->stream], &made);
    away_bound(-1);
    return made;
}

/* The same as the only node of another graph. */
static CUgraph capture_inside(struct actor *a, struct graph *g) {
    CUgraph made, child = capture(a, g);
    CUgraphNode node;
    CU(cuGraphCreate, &made, 0);
    CU(cuGraphAddChildGraphNode, &node, made, NULL, 0, child);
    CU(cuGraphDestroy, child);
    return made;
}

/* --- by hand --- */

static CUDA_KERNEL_NODE_PARAMS kernel_node(struct actor *a, struct work *w, void **parameters) {
    kernel_parameters(w->arguments.kernel, w->arguments.bytes, parameters);
    return (CUDA_KERNEL_NODE_PARAMS){a->kernel[w->arguments.kernel], 2, 1, 1, 32, 1, 1, .kernelParams = parameters};
}

static bool conflict(const struct work *a, const struct work *b) {
    for (int i = 0; i < a->uses; i++)
        for (int k = 0; k < b->uses; k++)
            if (a->use[i].block == b->use[k].block && (a->use[i].writes || b->use[k].writes))
                return true;
    return false;
}

static void add_node(struct actor *a, CUgraph graph, struct work *w, CUgraphNode *node, const CUgraphNode *after,
                     size_t n) {
    void *parameters[8];
    if (w->kind == WORK_LAUNCH) {
        CUDA_KERNEL_NODE_PARAMS p = kernel_node(a, w, parameters);
        CU(cuGraphAddKernelNode_v2, node, graph, after, n, &p);
    } else if (w->kind == WORK_MEMSET) {
        CU(cuGraphAddMemsetNode, node, graph, after, n, &w->memset, a->context);
    } else if (w->kind == WORK_COPY) {
        CU(cuGraphAddMemcpyNode, node, graph, after, n, &w->copy, a->context);
    } else {
        CU(cuGraphAddHostNode, node, graph, after, n, &w->host);
    }
}

/* Where no gate is. */
static void add_word(struct actor *a, CUgraph graph, uint32_t value) {
    CUgraphNode node;
    CUstreamBatchMemOpParams word = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                    .address = a->word.start + WORD_OFFSET,
                                                    .value = value}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = a->context, .count = 1, .paramArray = &word};
    CU(cuGraphAddBatchMemOpNode, &node, graph, NULL, 0, &p);
}

static CUgraph by_hand(struct actor *a, const struct graph *g, CUgraphNode *node) {
    CUgraph made;
    struct work w[GRAPH_STEPS];
    CU(cuGraphCreate, &made, 0);
    for (int i = 0; i < g->count; i++) {
        CUgraphNode after[GRAPH_STEPS];
        size_t n = 0;
        work_prepare(a, &g->steps[i], &w[i]);
        for (int k = 0; k < i; k++)
            if (conflict(&w[k], &w[i]))
                after[n++] = node[k];
        add_node(a, made, &w[i], &node[i], after, n);
    }
    if (g->words)
        add_word(a, made, g->steps[0].key);
    return made;
}

static void set_nodes(struct actor *a, struct graph *g) {
    for (int i = 0; i < g->count; i++) {
        struct work w;
        void *parameters[8];
        work_prepare(a, &g->steps[i], &w);
        if (w.kind == WORK_LAUNCH) {
            CUDA_KERNEL_NODE_PARAMS p = kernel_node(a, &w, parameters);
            CU(cuGraphExecKernelNodeSetParams_v2, g->exec, g->node[i], &p);
        } else if (w.kind == WORK_MEMSET) {
            CU(cuGraphExecMemsetNodeSetParams, g->exec, g->node[i], &w.memset, a->context);
        } else if (w.kind == WORK_COPY) {
            CU(cuGraphExecMemcpyNodeSetParams, g->exec, g->node[i], &w.copy, a->context);
        } else {
            CU(cuGraphExecHostNodeSetParams, g->exec, g->node[i], &w.host);
        }
    }
}

/* --- launch --- */

void graph_free(struct graph *g) {
    if (!g->exec)
        return;
    CU(cuGraphExecDestroy, g->exec);
    CU(cuGraphDestroy, g->made);
    g->exec = NULL;
}

static CUgraph make(struct actor *a, struct graph *g, CUgraphNode *node) {
    return g->by_hand ? by_hand(a, g, node) : g->inside ? capture_inside(a, g) : capture(a, g);
}

static void bring_up_to_date(struct actor *a, struct graph *g, uint32_t form) {
    CUgraphNode other[GRAPH_STEPS];
    CUgraphExecUpdateResultInfo info;
    if (g->exec && g->allocates) {
        host_wait_uses(a, operand(a, g->steps[0].block[0]), false);
        graph_free(g);
    } else if (g->exec && form % 4 == 0) { /* a launch of it may be under way */
        graph_free(g);
    }
    if (!g->exec) {
        g->made = make(a, g, g->node);
        CU(cuGraphInstantiateWithFlags, &g->exec, g->made, 0);
    } else if (g->by_hand && form % 2) {
        set_nodes(a, g);
    } else {
        CUgraph changed = make(a, g, other);
        CU(cuGraphExecUpdate_v2, g->exec, changed, &info);
        CU(cuGraphDestroy, changed);
    }
}

void graph_run(struct actor *a, struct graph *g, int stream, uint32_t form) {
    struct use use[(GRAPH_STEPS + 1) * USES]; /* the last are the graph's own */
    int uses = 0;
    if (hides(g))
        work_point(a);
    if (!g->exec || g->signature != signature(a, g))
        bring_up_to_date(a, g, form);
    g->signature = signature(a, g);
    for (int i = 0; i < g->count; i++) {
        struct work w;
        work_prepare(a, &g->steps[i], &w);
        for (int k = 0; k < w.uses; k++)
            use[uses++] = w.use[k];
    }
    if (g->allocates)
        use[uses++] = (struct use){operand(a, g->steps[0].block[0]), true};
    if (g->words)
        use[uses++] = (struct use){&a->word, true};
    order_before(a, stream, use, uses);
    CU(cuGraphLaunch, g->exec, a->stream[stream]);
    order_after(a, stream, use, uses);
}
