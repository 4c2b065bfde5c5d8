/* Instantiated graphs. */
#include "call.h"
#include "capture.h"
#include "cost.h"
#include "event.h"
#include "graphmemory.h"
#include "memory.h"
#include "node.h"
#include "plan.h"

#include <stdlib.h>

struct CUgraphExec_st {
    struct plan *plan;
    uint64_t flags;
    pthread_mutex_t lock;
    struct mark last; /* the last launch: the next one follows it, in whatever stream */
    uint64_t round;   /* of graphmemory.c */
};

/* --- instantiation --- */

CALL(cuGraphInstantiateWithFlags, CALL_CONTEXT, CUgraphExec *out, CUgraph g, unsigned long long flags) {
    INVALID_IF(!out || !g || flags & ~15ull);
    CUgraphExec e = calloc(1, sizeof *e);
    if (!e || !(e->plan = plan_new(g))) {
        free(e);
        return CUDA_ERROR_INVALID_VALUE;
    }
    e->flags = flags;
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return CUDA_SUCCESS;
}

CALL(cuGraphInstantiate, CALL_CONTEXT, CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t bytes) {
    if (error)
        *error = NULL;
    if (log && bytes)
        *log = 0;
    return body_cuGraphInstantiateWithFlags(c, out, g, 0);
}
SAME(cuGraphInstantiate_v2, cuGraphInstantiate);

CALL_ON(cuGraphInstantiateWithParams, CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    INVALID_IF(!p);
    CUresult result = body_cuGraphInstantiateWithFlags(c, out, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return result;
}

CALL(cuGraphExecDestroy, CALL_DRIVER, CUgraphExec e) {
    INVALID_IF(!e);
    plan_release(e->plan); /* a launch under way holds it */
    mark_release(&e->last);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return CUDA_SUCCESS;
}

/* --- launch --- */

static bool frees(const struct plan *p, CUdeviceptr address) {
    for (size_t i = 0; i < p->count; i++)
        if (p->step[i].work.kind == WORK_FREE && p->step[i].work.allocation.address == address)
            return true;
    return false;
}

/* What an earlier launch allocated and nobody freed is freed now, if the graph was made so. What the graph itself frees
 * may be there still: the launch before is under way. */
static CUresult check_allocations(CUgraphExec e) {
    struct area a;
    for (size_t i = 0; i < e->plan->count; i++) {
        const struct work *w = &e->plan->step[i].work;
        INVALID_IF(w->kind == WORK_ALLOC && !(e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) &&
                   !frees(e->plan, w->allocation.address) && area_find(w->allocation.address, &a));
    }
    return CUDA_SUCCESS;
}

/* Whether one of the first n steps does that with the event; NULL: with any. */
static bool any_does(const struct plan *p, size_t n, enum work_kind kind, CUevent e) {
    size_t i = 0;
    while (i < n && (p->step[i].work.kind != kind || (e && p->step[i].work.event != e)))
        i++;
    return i < n;
}

/* A wait is for what the event's last record was when the graph was launched, unless the graph records it before. */
static bool resolve(const struct plan *p, size_t step, struct work *w) {
    struct stamp *t = NULL;
    bool records = w->kind == WORK_RECORD;
    if (records && !(t = stamp_new()))
        return false;
    if (!records && !any_does(p, step, WORK_RECORD, w->event))
        t = event_last(w->event);
    *w = (struct work){.kind = records ? WORK_STAMP : t ? WORK_AFTER : WORK_EMPTY, .stamp = t};
    return true;
}

/* What one launch of the plan runs: the plan itself, or a copy with the records that it makes and waits for. NULL: no
 * memory. */
static struct plan *plan_of_launch(struct plan *p) {
    if (!any_does(p, p->count, WORK_RECORD, NULL) && !any_does(p, p->count, WORK_WAIT, NULL))
        return plan_hold(p);
    struct plan *copy = plan_copy(p);
    bool good = copy;
    for (size_t i = 0; good && i < p->count; i++)
        if (p->step[i].work.kind == WORK_RECORD || p->step[i].work.kind == WORK_WAIT)
            good = resolve(p, i, &copy->step[i].work);
    if (good || !copy)
        return copy;
    plan_release(copy);
    return NULL;
}

/* Whoever waits for an event that the graph records waits for the whole launch. */
static void set_events(const struct plan *p, const struct plan *launched, const struct mark *at) {
    for (size_t i = 0; i < p->count; i++) {
        if (p->step[i].work.kind != WORK_RECORD)
            continue;
        struct stamp *t = stamp_hold(launched->step[i].work.stamp);
        t->at = *at;
        stream_hold(at->stream);
        event_set(p->step[i].work.event, t);
    }
}

static CUresult launch(CUstream s, CUgraphExec e) {
    struct mark at;
    if (capture_is_on(s))
        NOT_EMULATED("launching a graph into a capture");
    struct plan *launched = plan_of_launch(e->plan);
    bool taken = launched && graph_memory_take(s, launched, &e->round);
    if (!taken) {
        if (launched)
            plan_release(launched);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct work w = {.kind = WORK_GRAPH, .plan = plan_hold(launched)};
    CUresult result = stream_enter(s, &w, e->last.stream ? &e->last : NULL, &at);
    if (result == CUDA_SUCCESS) {
        set_events(e->plan, launched, &at);
        graph_memory_launched(&at);
        mark_release(&e->last);
        e->last = at;
    } else {
        graph_memory_launched(&(struct mark){.stream = s});
    }
    plan_release(launched);
    return result;
}

CALL_ON(cuGraphLaunch, CUgraphExec e, CUstream stream) {
    INVALID_IF(!e);
    pthread_mutex_lock(&e->lock);
    CUresult result = check_allocations(e);
    if (result == CUDA_SUCCESS)
        result = launch(s, e);
    pthread_mutex_unlock(&e->lock);
    cost_call(rate(RATE_LAUNCH));
    return result;
}

/* --- change --- */

/* A plan that nobody else holds. */
static struct plan *own_plan(CUgraphExec e) {
    if (atomic_load(&e->plan->refs) == 1)
        return e->plan;
    struct plan *copy = plan_copy(e->plan);
    if (copy) {
        plan_release(e->plan);
        e->plan = copy;
    }
    return copy;
}

CALL(cuGraphExecNodeSetParams, CALL_CONTEXT, CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p) {
    INVALID_IF(!e || !n || !p);
    pthread_mutex_lock(&e->lock);
    struct plan *plan = own_plan(e);
    struct plan_step *s = plan ? plan_find(plan, n) : NULL;
    CUresult result = !plan ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (s)
        result = work_set_params(&s->work, s->type, p);
    pthread_mutex_unlock(&e->lock);
    return result;
}

CALL(cuGraphExecUpdate_v2, CALL_CONTEXT, CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info) {
    INVALID_IF(!info);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    struct plan *other = e && g ? plan_new(g) : NULL;
    INVALID_IF(!other);
    struct plan_step *wrong = NULL;
    pthread_mutex_lock(&e->lock);
    struct plan *plan = own_plan(e);
    if (plan)
        info->result = plan_update(plan, 0, plan->count, other, &wrong);
    pthread_mutex_unlock(&e->lock);
    info->errorNode = wrong ? wrong->origin : NULL;
    plan_release(other);
    return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CALL(cuGraphExecUpdate, CALL_CONTEXT, CUgraphExec e, CUgraph g, CUgraphNode *error, CUgraphExecUpdateResult *out) {
    CUgraphExecUpdateResultInfo info;
    CUresult result = body_cuGraphExecUpdate_v2(c, e, g, &info);
    if (error)
        *error = info.errorNode;
    if (out)
        *out = info.result;
    return result;
}

/* The child's steps stand right before its node's. */
CALL(cuGraphExecChildGraphNodeSetParams, CALL_CONTEXT, CUgraphExec e, CUgraphNode n, CUgraph child) {
    INVALID_IF(!e || !n || !child || !node_living(n) || n->type != CU_GRAPH_NODE_TYPE_GRAPH);
    struct plan *before = plan_new(n->work.child), *other = plan_new(child);
    CUgraphExecUpdateResult changed = CU_GRAPH_EXEC_UPDATE_ERROR;
    struct plan_step *wrong;
    pthread_mutex_lock(&e->lock);
    struct plan *plan = before && other ? own_plan(e) : NULL;
    struct plan_step *s = plan ? plan_find(plan, n) : NULL;
    if (s)
        changed = plan_update(plan, (size_t)(s - plan->step) - before->count, before->count, other, &wrong);
    pthread_mutex_unlock(&e->lock);
    if (before)
        plan_release(before);
    if (other)
        plan_release(other);
    return changed == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The driver does this for kernels, copies and memsets only. */
static bool may_be_disabled(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

CALL(cuGraphNodeSetEnabled, CALL_DRIVER, CUgraphExec e, CUgraphNode n, unsigned enabled) {
    INVALID_IF(!e || !n);
    pthread_mutex_lock(&e->lock);
    struct plan *plan = own_plan(e);
    struct plan_step *s = plan ? plan_find(plan, n) : NULL;
    bool good = s && may_be_disabled(s->type);
    if (good)
        s->enabled = enabled != 0;
    pthread_mutex_unlock(&e->lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
