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

static CUresult instantiate(CUgraphExec *out, CUgraph g, uint64_t flags) {
    if (!out || !g || flags & ~15ull)
        return CUDA_ERROR_INVALID_VALUE;
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

static CUresult instantiate_logged(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t bytes) {
    if (error)
        *error = NULL;
    if (log && bytes)
        *log = 0;
    return instantiate(out, g, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t bytes) {
    BEGIN(CALL_CONTEXT);
    return instantiate_logged(out, g, error, log, bytes);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t bytes) {
    BEGIN(CALL_CONTEXT);
    return instantiate_logged(out, g, error, log, bytes);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
    BEGIN(CALL_CONTEXT);
    return instantiate(out, g, flags);
}

STREAMED(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p),
         (out, g, p)) {
    BEGIN_AS(call, CALL_CONTEXT);
    (void)per_thread;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(out, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return result;
}

EXPORT CUresult cuGraphExecGetFlags(CUgraphExec e, cuuint64_t *flags) {
    BEGIN(CALL_DRIVER);
    if (!e || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec e) {
    BEGIN(CALL_DRIVER);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
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
        if (w->kind == WORK_ALLOC && !(e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) &&
            !frees(e->plan, w->allocation.address) && area_find(w->allocation.address, &a))
            return CUDA_ERROR_INVALID_VALUE;
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

STREAMED(cuGraphLaunch, _ptsz, (CUgraphExec e, CUstream stream), (e, stream)) {
    BEGIN_ON(stream);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&e->lock);
    CUresult result = check_allocations(e);
    if (result == CUDA_SUCCESS)
        result = launch(s, e);
    pthread_mutex_unlock(&e->lock);
    cost_call(rate(RATE_LAUNCH));
    return result;
}

STREAMED(cuGraphUpload, _ptsz, (CUgraphExec e, CUstream stream), (e, stream)) {
    BEGIN_ON(stream);
    struct work w = {.kind = WORK_EMPTY};
    return e ? stream_issue(s, &w) : CUDA_ERROR_INVALID_VALUE;
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

static CUresult set_params(CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p) {
    if (!e || !n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&e->lock);
    struct plan *plan = own_plan(e);
    struct plan_step *s = plan ? plan_find(plan, n) : NULL;
    CUresult result = !plan ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    if (s)
        result = work_set_params(&s->work, s->type, p);
    pthread_mutex_unlock(&e->lock);
    return result;
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraphNodeParams *p) {
    BEGIN(CALL_CONTEXT);
    return set_params(e, n, p);
}

static CUresult update(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info) {
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    if (!e || !g)
        return CUDA_ERROR_INVALID_VALUE;
    struct plan *other = plan_new(g);
    if (!other)
        return CUDA_ERROR_INVALID_VALUE;
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

EXPORT CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphNode *error, CUgraphExecUpdateResult *out) {
    BEGIN(CALL_CONTEXT);
    CUgraphExecUpdateResultInfo info;
    CUresult result = update(e, g, &info);
    if (error)
        *error = info.errorNode;
    if (out)
        *out = info.result;
    return result;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *out) {
    BEGIN(CALL_CONTEXT);
    return out ? update(e, g, out) : CUDA_ERROR_INVALID_VALUE;
}

/* The child's steps stand right before its node's. */
EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec e, CUgraphNode n, CUgraph child) {
    BEGIN(CALL_CONTEXT);
    if (!e || !n || !child || !node_living(n) || n->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
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

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = kernel_params_of_v1(p)};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *p};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext ctx) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = ctx, .copyParams = *p}};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p,
                                               CUcontext ctx) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = memset_params_of(p, ctx)};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = *p};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec e, CUgraphNode n,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
    BEGIN(CALL_CONTEXT);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *p};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec e, CUgraphNode n, CUevent event) {
    BEGIN(CALL_CONTEXT);
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {event}};
    return set_params(e, n, &all);
}

EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec e, CUgraphNode n, CUevent event) {
    BEGIN(CALL_CONTEXT);
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
    return set_params(e, n, &all);
}

/* The driver does this for kernels, copies and memsets only. */
static bool may_be_disabled(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode n, unsigned enabled) {
    BEGIN(CALL_DRIVER);
    if (!e || !n)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&e->lock);
    struct plan *plan = own_plan(e);
    struct plan_step *s = plan ? plan_find(plan, n) : NULL;
    bool good = s && may_be_disabled(s->type);
    if (good)
        s->enabled = enabled != 0;
    pthread_mutex_unlock(&e->lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec e, CUgraphNode n, unsigned *enabled) {
    BEGIN(CALL_DRIVER);
    struct plan_step *s = e && n ? plan_find(e->plan, n) : NULL;
    if (!s || !enabled || !may_be_disabled(s->type))
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = s->enabled;
    return CUDA_SUCCESS;
}
