/* The calls that build graphs, and ask what is in them. */
#include "call.h"
#include "graphmemory.h"
#include "memory.h"
#include "node.h"

#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return CUDA_ERROR_INVALID_VALUE;                                                                           \
    } while (0)

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    BEGIN(CALL_DRIVER);
    CHECK(out && !flags);
    *out = graph_new();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphDestroy(CUgraph g) {
    BEGIN(CALL_DRIVER);
    CHECK(g && !g->child);
    graph_free(g);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph original) {
    BEGIN(CALL_DRIVER);
    CHECK(out && original);
    *out = graph_clone(original);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone) {
    BEGIN(CALL_DRIVER);
    CHECK(out && original && clone);
    CUgraphNode n = clone->first;
    while (n && n->copy_of != original)
        n = n->next;
    CHECK(n);
    *out = n;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode n) {
    BEGIN(CALL_DRIVER);
    CHECK(n);
    node_free(n);
    return CUDA_SUCCESS;
}

/* --- adding --- */

#define ADD(symbol, parameter, type_, ...)                                                                             \
    EXPORT CUresult symbol(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, UNWRAP parameter) {        \
        BEGIN(CALL_CONTEXT);                                                                                           \
        CUgraphNodeParams p = {.type = type_, __VA_ARGS__};                                                            \
        return node_add(g, out, after, NULL, n, &p);                                                                   \
    }

/* The same with a structure that must not be NULL. */
#define ADD_FROM(symbol, parameter, type_, ...)                                                                        \
    EXPORT CUresult symbol(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, UNWRAP parameter) {        \
        BEGIN(CALL_CONTEXT);                                                                                           \
        CHECK(q);                                                                                                      \
        CUgraphNodeParams p = {.type = type_, __VA_ARGS__};                                                            \
        return node_add(g, out, after, NULL, n, &p);                                                                   \
    }

ADD_FROM(cuGraphAddKernelNode, (const CUDA_KERNEL_NODE_PARAMS_v1 *q), CU_GRAPH_NODE_TYPE_KERNEL,
         .kernel = kernel_params_of_v1(q))
ADD_FROM(cuGraphAddKernelNode_v2, (const CUDA_KERNEL_NODE_PARAMS *q), CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *q)
ADD_FROM(cuGraphAddMemcpyNode, (const CUDA_MEMCPY3D *q, CUcontext ctx), CU_GRAPH_NODE_TYPE_MEMCPY,
         .memcpy = {.copyCtx = ctx, .copyParams = *q})
ADD_FROM(cuGraphAddMemsetNode, (const CUDA_MEMSET_NODE_PARAMS *q, CUcontext ctx), CU_GRAPH_NODE_TYPE_MEMSET,
         .memset = memset_params_of(q, ctx))
ADD_FROM(cuGraphAddHostNode, (const CUDA_HOST_NODE_PARAMS *q), CU_GRAPH_NODE_TYPE_HOST, .host = *q)
ADD_FROM(cuGraphAddBatchMemOpNode, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *q), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
         .memOp = *q)
ADD(cuGraphAddChildGraphNode, (CUgraph child), CU_GRAPH_NODE_TYPE_GRAPH, .graph = {child})
ADD(cuGraphAddEventRecordNode, (CUevent event), CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {event})
ADD(cuGraphAddEventWaitNode, (CUevent event), CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event})
ADD(cuGraphAddMemFreeNode, (CUdeviceptr address), CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {address})

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n) {
    BEGIN(CALL_CONTEXT);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return node_add(g, out, after, NULL, n, &p);
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *q) {
    BEGIN(CALL_CONTEXT);
    CHECK(q);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc = *q};
    CUresult result = node_add(g, out, after, NULL, n, &p);
    q->dptr = p.alloc.dptr;
    return result;
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUgraphNodeParams *p) {
    BEGIN(CALL_CONTEXT);
    return node_add(g, out, after, NULL, n, p);
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *edges,
                                  size_t n, CUgraphNodeParams *p) {
    BEGIN(CALL_CONTEXT);
    return node_add(g, out, after, edges, n, p);
}

/* --- parameters --- */

static CUresult get(CUgraphNode n, CUgraphNodeType type, CUgraphNodeParams *p) {
    CHECK(n && n->type == type);
    return params_of_node(n, p);
}

static CUresult set(CUgraphNode n, CUgraphNodeParams *p) {
    CHECK(n && p);
    return work_set_params(&n->work, n->type, p);
}

#define GET(symbol, out_type, type_, value)                                                                            \
    EXPORT CUresult symbol(CUgraphNode n, out_type *out) {                                                             \
        BEGIN(CALL_DRIVER);                                                                                            \
        CUgraphNodeParams p;                                                                                           \
        CHECK(out);                                                                                                    \
        CUresult result = get(n, type_, &p);                                                                           \
        if (result == CUDA_SUCCESS)                                                                                    \
            *out = value;                                                                                              \
        return result;                                                                                                 \
    }

#define SET(symbol, in_type, type_, ...)                                                                               \
    EXPORT CUresult symbol(CUgraphNode n, const in_type *q) {                                                          \
        BEGIN(CALL_CONTEXT);                                                                                           \
        CHECK(q);                                                                                                      \
        CUgraphNodeParams p = {.type = type_, __VA_ARGS__};                                                            \
        return set(n, &p);                                                                                             \
    }

static CUDA_KERNEL_NODE_PARAMS_v1 to_v1(const CUDA_KERNEL_NODE_PARAMS *p) {
    CUDA_KERNEL_NODE_PARAMS_v1 q;
    memcpy(&q, p, sizeof q); /* the later one only grew at its end */
    return q;
}

static CUDA_MEMSET_NODE_PARAMS memset_without_context(const CUDA_MEMSET_NODE_PARAMS_v2 *p) {
    CUDA_MEMSET_NODE_PARAMS q;
    memcpy(&q, p, sizeof q);
    return q;
}

GET(cuGraphKernelNodeGetParams, CUDA_KERNEL_NODE_PARAMS_v1, CU_GRAPH_NODE_TYPE_KERNEL, to_v1(&p.kernel))
GET(cuGraphKernelNodeGetParams_v2, CUDA_KERNEL_NODE_PARAMS, CU_GRAPH_NODE_TYPE_KERNEL, p.kernel)
GET(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D, CU_GRAPH_NODE_TYPE_MEMCPY, p.memcpy.copyParams)
GET(cuGraphMemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS, CU_GRAPH_NODE_TYPE_MEMSET, memset_without_context(&p.memset))
GET(cuGraphHostNodeGetParams, CUDA_HOST_NODE_PARAMS, CU_GRAPH_NODE_TYPE_HOST, p.host)
GET(cuGraphBatchMemOpNodeGetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, p.memOp)
GET(cuGraphChildGraphNodeGetGraph, CUgraph, CU_GRAPH_NODE_TYPE_GRAPH, p.graph.graph)
GET(cuGraphEventRecordNodeGetEvent, CUevent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, p.eventRecord.event)
GET(cuGraphEventWaitNodeGetEvent, CUevent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, p.eventWait.event)
GET(cuGraphMemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS, CU_GRAPH_NODE_TYPE_MEM_ALLOC, p.alloc)
GET(cuGraphMemFreeNodeGetParams, CUdeviceptr, CU_GRAPH_NODE_TYPE_MEM_FREE, p.free.dptr)

SET(cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1, CU_GRAPH_NODE_TYPE_KERNEL, .kernel = kernel_params_of_v1(q))
SET(cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS, CU_GRAPH_NODE_TYPE_KERNEL, .kernel = *q)
SET(cuGraphMemcpyNodeSetParams, CUDA_MEMCPY3D, CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = *q})
SET(cuGraphMemsetNodeSetParams, CUDA_MEMSET_NODE_PARAMS, CU_GRAPH_NODE_TYPE_MEMSET, .memset = memset_params_of(q, NULL))
SET(cuGraphHostNodeSetParams, CUDA_HOST_NODE_PARAMS, CU_GRAPH_NODE_TYPE_HOST, .host = *q)
SET(cuGraphBatchMemOpNodeSetParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = *q)

EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode n, CUevent event) {
    BEGIN(CALL_CONTEXT);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {event}};
    return set(n, &p);
}

EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode n, CUevent event) {
    BEGIN(CALL_CONTEXT);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
    return set(n, &p);
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams *p) {
    BEGIN(CALL_CONTEXT);
    return set(n, p);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *type) {
    BEGIN(CALL_DRIVER);
    CHECK(n && type);
    *type = n->type;
    return CUDA_SUCCESS;
}

/* Launch attributes change nothing here. */
EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue *value) {
    BEGIN(CALL_DRIVER);
    (void)id;
    CHECK(n && n->type == CU_GRAPH_NODE_TYPE_KERNEL && value);
    memset(value, 0, sizeof *value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id,
                                              const CUkernelNodeAttrValue *value) {
    BEGIN(CALL_DRIVER);
    (void)id;
    CHECK(n && n->type == CU_GRAPH_NODE_TYPE_KERNEL && value);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
    BEGIN(CALL_DRIVER);
    CHECK(to && from && to->type == CU_GRAPH_NODE_TYPE_KERNEL && from->type == CU_GRAPH_NODE_TYPE_KERNEL);
    return CUDA_SUCCESS;
}

/* --- a graph's own allocations --- */

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    graph_memory_trim(&devices[d]);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute id, void *value) {
    BEGIN(CALL_DRIVER);
    CHECK(value);
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    bool high = id == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || id == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    uint64_t bytes = atomic_load(high ? &devices[d].graph_high : &devices[d].graph_reserved);
    memcpy(value, &bytes, sizeof bytes);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice d, CUgraphMem_attribute id, void *value) {
    BEGIN(CALL_DRIVER);
    (void)value;
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    CHECK(id == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || id == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
    atomic_store(&devices[d].graph_high, atomic_load(&devices[d].graph_reserved));
    return CUDA_SUCCESS;
}
