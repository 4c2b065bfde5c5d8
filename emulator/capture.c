#include "capture.h"

#include "capture_inside.h"
#include "graph.h"

#include <stdlib.h>

pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
struct capture *captures;
static atomic_uint capture_count; /* so that without captures nobody takes the lock */
static uint64_t last_id;

bool capture_any(void) {
    return atomic_load(&capture_count) > 0;
}

/* --- life; under the lock --- */

void capture_release(struct capture *k) {
    if (--k->refs > 0)
        return;
    free(k);
}

bool tail_set(struct tail *t, const CUgraphNode *nodes, size_t n, bool add) {
    size_t kept = add ? t->count : 0;
    CUgraphNode *all = calloc(kept + n + 1, sizeof *all);
    CUgraphEdgeData *edges = calloc(kept + n + 1, sizeof *edges);
    if (!all || !edges) {
        free(all);
        free(edges);
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < kept + n; i++) {
        CUgraphNode node = i < kept ? t->nodes[i] : nodes[i - kept];
        size_t k = 0;
        while (k < count && all[k] != node)
            k++;
        if (k == count)
            all[count++] = node;
    }
    free(t->nodes);
    free(t->edges);
    *t = (struct tail){all, edges, count};
    return true;
}

void capture_join(CUstream s, struct capture *k) {
    s->capture = k;
    s->capture_next = k->members;
    k->members = s;
    k->refs++;
    if (stream_blocks(s))
        atomic_fetch_add(&s->context->captures, 1);
}

static void leave(CUstream s) {
    CUstream *at = &s->capture->members;
    while (*at != s)
        at = &(*at)->capture_next;
    *at = s->capture_next;
    if (stream_blocks(s))
        atomic_fetch_sub(&s->context->captures, 1);
    free(s->tail.nodes);
    free(s->tail.edges);
    s->tail = (struct tail){0};
    capture_release(s->capture);
    s->capture = NULL;
}

CUresult capture_append(CUstream s, CUgraphNodeType type, struct work *w, CUgraphNode *out) {
    CUresult result = node_new(s->capture->graph, type, w, s->tail.nodes, NULL, s->tail.count, out);
    if (result == CUDA_SUCCESS && !tail_set(&s->tail, out, 1, false))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    s->capture->lost = s->capture->lost || result != CUDA_SUCCESS;
    return result;
}

/* --- begin and end --- */

CUresult capture_begin(CUstream s, CUgraph g, const CUgraphNode *after, size_t n, CUstreamCaptureMode mode) {
    INVALID_IF((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !after));
    if (s == s->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct capture *k = calloc(1, sizeof *k);
    CUgraph graph = g ? g : graph_new();
    pthread_mutex_lock(&capture_lock);
    CUresult result = !k || !graph ? CUDA_ERROR_OUT_OF_MEMORY : s->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && !tail_set(&s->tail, after, n, false))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        *k = (struct capture){.id = ++last_id,
                              .graph = graph,
                              .own_graph = !g,
                              .mode = mode,
                              .thread = thread_self(),
                              .origin = s,
                              .next = captures};
        captures = k;
        atomic_fetch_add(&capture_count, 1);
        capture_join(s, k);
    }
    pthread_mutex_unlock(&capture_lock);
    if (result != CUDA_SUCCESS) {
        free(k);
        if (!g && graph)
            graph_free(graph);
    }
    return result;
}

static void mark_before(CUgraphNode n) {
    if (n->index)
        return;
    n->index = 1;
    for (size_t i = 0; i < n->after_count; i++)
        mark_before(n->after[i].from);
}

/* Every stream that joined has been waited for by the one that began it. */
static bool joined(const struct capture *k) {
    bool all = true;
    for (CUgraphNode n = k->graph->first; n; n = n->next)
        n->index = 0;
    for (size_t i = 0; i < k->origin->tail.count; i++)
        mark_before(k->origin->tail.nodes[i]);
    for (CUstream s = k->members; s; s = s->capture_next)
        for (size_t i = 0; i < s->tail.count; i++)
            all = all && s->tail.nodes[i]->index;
    return all;
}

/* Its streams are ordinary ones again; its graph is the caller's. */
static CUgraph end(struct capture *k) {
    struct capture **at = &captures;
    CUgraph graph = k->graph;
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    atomic_fetch_sub(&capture_count, 1);
    k->graph = NULL;
    k->refs++;
    while (k->members)
        leave(k->members);
    capture_release(k);
    return graph;
}

void capture_loses_stream(CUstream s) {
    CUgraph unwanted = NULL;
    pthread_mutex_lock(&capture_lock);
    struct capture *k = s->capture;
    if (k && k->origin == s)
        unwanted = k->own_graph ? end(k) : (end(k), NULL);
    else if (k)
        k->lost = true, leave(s);
    pthread_mutex_unlock(&capture_lock);
    if (unwanted)
        graph_free(unwanted);
}

CUresult capture_end(CUstream s, CUgraph *out) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    struct capture *k = s->capture;
    if (!k)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (k->origin != s)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (k->mode != CU_STREAM_CAPTURE_MODE_RELAXED && k->thread != thread_self())
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (result != CUDA_SUCCESS) {
        if (k)
            k->lost = true;
        pthread_mutex_unlock(&capture_lock);
        return result;
    }
    if (k->lost)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(k))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    bool own = k->own_graph;
    CUgraph graph = end(k);
    pthread_mutex_unlock(&capture_lock);
    if (result != CUDA_SUCCESS && own)
        graph_free(graph);
    *out = result == CUDA_SUCCESS ? graph : NULL;
    return result;
}

void capture_info(CUstream s, struct capture_info *out) {
    *out = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    pthread_mutex_lock(&capture_lock);
    if (s->capture)
        *out = (struct capture_info){s->capture->lost ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE,
                                     s->capture->id, s->capture->graph, s->tail};
    pthread_mutex_unlock(&capture_lock);
}
