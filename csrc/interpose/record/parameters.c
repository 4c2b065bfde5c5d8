#include "interpose/record/parameters.h"

#include <string.h>

#include "driver/session.h"
#include "interpose/wrappers/copy.h"
#include "interpose/wrappers/graph.h"
#include "interpose/wrappers/launch.h"
#include "interpose/wrappers/stream.h"

CUgraphNodeParams parameters_of_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&q.kernel, p, sizeof *p); /* the newer structures begin so */
    return q;
}

CUgraphNodeParams parameters_of_kernel(const CUDA_KERNEL_NODE_PARAMS *p) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *p};
}

CUgraphNodeParams parameters_of_copy(const CUDA_MEMCPY3D *p, CUcontext context) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = *p}};
}

CUgraphNodeParams parameters_of_memset(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context) {
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    memcpy(&q.memset, p, sizeof *p);
    q.memset.ctx = context;
    return q;
}

CUgraphNodeParams parameters_of_host(const CUDA_HOST_NODE_PARAMS *p) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST, .host = *p};
}

CUgraphNodeParams parameters_of_event(CUgraphNodeType type, CUevent event) {
    return (CUgraphNodeParams){.type = type, .eventRecord = {event}};
}

CUgraphNodeParams parameters_of_words(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *p};
}

CUgraphNodeParams parameters_of_child(CUgraph graph) {
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {graph}};
}

static CUresult read_kernel(CUgraphNode node, CUgraphNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    if (real_find(API_cuGraphKernelNodeGetParams_v2, 0))
        return REAL(cuGraphKernelNodeGetParams_v2, 0)(node, &p->kernel);
    CUresult status = REAL(cuGraphKernelNodeGetParams, 0)(node, &old);
    if (status == CUDA_SUCCESS)
        *p = parameters_of_kernel_v1(&old);
    return status;
}

static CUresult read_memset(CUgraphNode node, CUgraphNodeParams *p) {
    CUDA_MEMSET_NODE_PARAMS set;
    CUresult status = REAL(cuGraphMemsetNodeGetParams, 0)(node, &set);
    if (status == CUDA_SUCCESS)
        *p = parameters_of_memset(&set, NULL);
    return status;
}

bool parameters_read(CUgraphNode node, CUgraphNodeParams *p) {
    *p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY};
    if (REAL(cuGraphNodeGetType, 0)(node, &p->type) != CUDA_SUCCESS)
        return false;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return read_kernel(node, p) == CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return REAL(cuGraphMemcpyNodeGetParams, 0)(node, &p->memcpy.copyParams) == CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return read_memset(node, p) == CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return REAL(cuGraphBatchMemOpNodeGetParams, 0)(node, &p->memOp) == CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return REAL(cuGraphChildGraphNodeGetGraph, 0)(node, &p->graph.graph) == CUDA_SUCCESS;
    default:
        return true;
    }
}

static void touch_kernel(struct op *op, const CUDA_KERNEL_NODE_PARAMS *p) {
    struct function *function = function_of((uint64_t)(uintptr_t)(p->func ? (void *)p->func : (void *)p->kern));
    op->kernels = 1;
    launch_touch(op, function, (struct grid){p->gridDimX, p->gridDimY}, p->kernelParams, p->extra);
}

void parameters_touch(struct op *op, const CUgraphNodeParams *p) {
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        touch_kernel(op, &p->kernel);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        copy_touch_3d(op, &p->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        copy_touch_memset(op, p->memset.dst, p->memset.pitch, p->memset.width * p->memset.elementSize,
                          p->memset.height);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        op->flags |= OP_GATED;
        stream_touch_words(op, p->memOp.paramArray, p->memOp.count);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: /* perhaps another process's */
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        op->flags |= OP_GATED;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        touch_graph(op, p->graph.graph);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: /* of which nothing is read */
    case CU_GRAPH_NODE_TYPE_MEMCPY_BATCH:
        op->flags |= OP_BLIND;
        break;
    default:
        break;
    }
}

CUresult parameters_refused(const CUgraphNodeParams *p) {
    struct thread *self = thread_self();
    if (!p || !session_on || !self || (p->type != CU_GRAPH_NODE_TYPE_MEMCPY && p->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_SUCCESS;
    struct op op = {.touches = self->touches};
    parameters_touch(&op, p);
    if (op.status == CUDA_SUCCESS && session.still_begin)
        session.still_begin(&op);
    return (CUresult)op.status;
}

CUresult parameters_taken(CUresult status) {
    if (session_on && session.still_end)
        session.still_end();
    return status;
}

CUresult parameters_copy_refused(const CUDA_MEMCPY3D *p) {
    CUgraphNodeParams q = p ? parameters_of_copy(p, NULL) : (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return parameters_refused(&q);
}

CUresult parameters_memset_refused(const CUDA_MEMSET_NODE_PARAMS *p) {
    CUgraphNodeParams q = p ? parameters_of_memset(p, NULL) : (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return parameters_refused(&q);
}
