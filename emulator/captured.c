/* What becomes of calls while streams capture. */
#include "capture.h"
#include "capture_inside.h"
#include "node.h"

#include <stdlib.h>

/* False: pages, for one, are not moved inside graphs. */
static bool node_type(enum work_kind kind, CUgraphNodeType *type) {
    static const struct {
        enum work_kind kind;
        CUgraphNodeType type;
    } types[] = {{WORK_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL}, {WORK_COPY, CU_GRAPH_NODE_TYPE_MEMCPY},
                 {WORK_MEMSET, CU_GRAPH_NODE_TYPE_MEMSET}, {WORK_HOST, CU_GRAPH_NODE_TYPE_HOST},
                 {WORK_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE}, {WORK_MEMOPS, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP},
                 {WORK_EMPTY, CU_GRAPH_NODE_TYPE_EMPTY}};
    size_t i = 0, n = sizeof types / sizeof *types;
    while (i < n && types[i].kind != kind)
        i++;
    *type = i < n ? types[i].type : CU_GRAPH_NODE_TYPE_EMPTY;
    return i < n;
}

static CUresult take(CUstream s, struct work *w) {
    CUgraphNodeType type;
    CUgraphNode node;
    if (!s->capture->lost && node_type(w->kind, &type))
        return capture_append(s, type, w, &node);
    CUresult result = s->capture->lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    s->capture->lost = true;
    work_release(w);
    return result;
}

/* Loses the captures that the legacy stream of the context would have to wait for. True: there were some. */
static bool lose_blocking(CUcontext c) {
    bool some = false;
    pthread_mutex_lock(&c->streams_lock);
    for (CUstream s = c->streams; s; s = s->next)
        if (s->capture && stream_blocks(s))
            some = s->capture->lost = true;
    pthread_mutex_unlock(&c->streams_lock);
    return some;
}

bool capture_takes(CUstream s, struct work *w, CUresult *result) {
    if (!capture_any())
        return false;
    bool taken = true;
    pthread_mutex_lock(&capture_lock);
    if (s->capture) {
        *result = take(s, w);
    } else if (s == s->context->legacy && lose_blocking(s->context)) {
        work_release(w);
        *result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else {
        taken = false;
    }
    pthread_mutex_unlock(&capture_lock);
    return taken;
}

bool capture_is_on(CUstream s) {
    if (!capture_any())
        return false;
    pthread_mutex_lock(&capture_lock);
    bool on = s->capture != NULL;
    pthread_mutex_unlock(&capture_lock);
    return on;
}

bool capture_allocates(CUstream s, const CUDA_MEM_ALLOC_NODE_PARAMS *params, CUdeviceptr *address, CUresult *result) {
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *params};
    struct work w;
    CUgraphNode node;
    pthread_mutex_lock(&capture_lock);
    bool on = s->capture != NULL;
    if (on && s->capture->lost) {
        *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (on) {
        *result = work_of_params(s->context, &p, &w);
        if (*result == CUDA_SUCCESS)
            *result = capture_append(s, p.type, &w, &node);
        if (*result == CUDA_SUCCESS)
            *address = p.alloc.dptr;
    }
    pthread_mutex_unlock(&capture_lock);
    return on;
}

/* --- events --- */

static void forget(CUevent e) {
    if (!e->captured)
        return;
    capture_release(e->captured->capture);
    free(e->captured->nodes);
    free(e->captured);
    e->captured = NULL;
}

static CUresult note_record(CUstream s, CUevent e) {
    struct capture_point *p = calloc(1, sizeof *p);
    struct tail tail = {0};
    if (!p || !tail_set(&tail, s->tail.nodes, s->tail.count, false)) {
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(tail.edges);
    *p = (struct capture_point){s->capture, tail.nodes, tail.count};
    forget(e);
    s->capture->refs++;
    e->captured = p;
    return CUDA_SUCCESS;
}

bool capture_records(CUstream s, CUevent e, bool external, CUresult *result) {
    if (!capture_any())
        return false;
    struct work w = {.kind = WORK_RECORD, .event = e};
    CUgraphNode node;
    pthread_mutex_lock(&capture_lock);
    bool on = s->capture != NULL;
    if (on && s->capture->lost)
        *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (on)
        *result = external ? capture_append(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &w, &node) : note_record(s, e);
    else if (s == s->context->legacy && lose_blocking(s->context))
        *result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, on = true;
    pthread_mutex_unlock(&capture_lock);
    return on;
}

/* The stream waits for an event of a capture that is under way. */
static CUresult wait_inside(CUstream s, const struct capture_point *p) {
    if (s->capture && s->capture != p->capture) {
        s->capture->lost = p->capture->lost = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (p->capture->lost)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s == s->context->legacy) {
        p->capture->lost = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!s->capture)
        capture_join(s, p->capture);
    return tail_set(&s->tail, p->nodes, p->count, true) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool capture_waits(CUstream s, CUevent e, bool external, CUresult *result) {
    if (!capture_any())
        return false;
    struct work w = {.kind = WORK_WAIT, .event = e};
    CUgraphNode node;
    bool answered = true;
    pthread_mutex_lock(&capture_lock);
    if (e->captured && e->captured->capture->graph) {
        *result = wait_inside(s, e->captured);
    } else if (!s->capture) {
        answered = false;
    } else if (s->capture->lost) {
        *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (external) {
        *result = capture_append(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &w, &node);
    } else {
        s->capture->lost = true;
        *result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    pthread_mutex_unlock(&capture_lock);
    return answered;
}

/* Events recorded in a capture keep its structure, whose graph is NULL once it has ended. */
bool capture_holds_event(CUevent e) {
    pthread_mutex_lock(&capture_lock);
    bool held = e->captured != NULL;
    if (held && e->captured->capture->graph)
        e->captured->capture->lost = true;
    pthread_mutex_unlock(&capture_lock);
    return held;
}

void capture_forget_event(CUevent e) {
    pthread_mutex_lock(&capture_lock);
    forget(e);
    pthread_mutex_unlock(&capture_lock);
}

/* --- what is forbidden meanwhile --- */

bool capture_forbids(void) {
    if (!capture_any())
        return false;
    const struct thread *me = thread_self();
    bool forbidden = false;
    pthread_mutex_lock(&capture_lock);
    for (struct capture *k = captures; k && me->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED; k = k->next) {
        bool mine = k->thread == me && k->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global = me->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && k->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (mine || global)
            forbidden = k->lost = true;
    }
    pthread_mutex_unlock(&capture_lock);
    return forbidden;
}

bool capture_stops_wait(CUcontext c) {
    if (!capture_any())
        return false;
    bool some = false;
    pthread_mutex_lock(&capture_lock);
    pthread_mutex_lock(&c->streams_lock);
    for (CUstream s = c->streams; s; s = s->next)
        if (s->capture)
            some = s->capture->lost = true;
    pthread_mutex_unlock(&c->streams_lock);
    pthread_mutex_unlock(&capture_lock);
    return some;
}

bool capture_stops_stream_wait(CUstream s) {
    if (!capture_any())
        return false;
    pthread_mutex_lock(&capture_lock);
    bool some = s->capture != NULL;
    if (some)
        s->capture->lost = true;
    else if (s == s->context->legacy)
        some = lose_blocking(s->context);
    pthread_mutex_unlock(&capture_lock);
    return some;
}
