/* The calls that build graphs, and ask what is in them. */
#include "call.h"
#include "graphmemory.h"
#include "memory.h"
#include "node.h"

#include <stddef.h>
#include <string.h>

CALL(cuGraphCreate, CALL_DRIVER, CUgraph *out, unsigned flags) {
    INVALID_IF(!out || flags);
    *out = graph_new();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuGraphDestroy, CALL_DRIVER, CUgraph g) {
    INVALID_IF(!g || g->child);
    graph_free(g);
    return CUDA_SUCCESS;
}

CALL(cuGraphClone, CALL_DRIVER, CUgraph *out, CUgraph original) {
    INVALID_IF(!out || !original);
    *out = graph_clone(original);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuGraphNodeFindInClone, CALL_DRIVER, CUgraphNode *out, CUgraphNode original, CUgraph clone) {
    INVALID_IF(!out || !original || !clone);
    CUgraphNode n = clone->first;
    while (n && n->copy_of != original)
        n = n->next;
    INVALID_IF(!n);
    *out = n;
    return CUDA_SUCCESS;
}

CALL(cuGraphDestroyNode, CALL_DRIVER, CUgraphNode n) {
    INVALID_IF(!n);
    node_free(n);
    return CUDA_SUCCESS;
}

/* --- parameters --- */

static CUresult get(CUgraphNode n, CUgraphNodeType type, size_t place, void *out, size_t bytes) {
    CUgraphNodeParams p;
    INVALID_IF(!n || n->type != type || !out);
    TRY(params_of_node(n, &p));
    memcpy(out, (char *)&p + place, bytes);
    return CUDA_SUCCESS;
}

static bool read(void *place, const void *q, size_t bytes) {
    if (q)
        memcpy(place, q, bytes);
    return q;
}

#define UNWRAP(...) __VA_ARGS__
/* Declares p, with the value at q in its place: it is what stands there, or its beginning. */
#define READ(node_type, place, q)                                                                                      \
    CUgraphNodeParams p = {.type = node_type};                                                                         \
    INVALID_IF(!read(&p.place, (q), sizeof *(q)))

#define GET(symbol, value_type, node_type, place)                                                                      \
    CALL(symbol, CALL_DRIVER, CUgraphNode n, value_type *out) {                                                        \
        return get(n, node_type, offsetof(CUgraphNodeParams, place), out, sizeof *out);                                \
    }

#define ADD(symbol, value, q, node_type, place)                                                                        \
    CALL(symbol, CALL_CONTEXT, CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, UNWRAP value) {        \
        READ(node_type, place, q);                                                                                     \
        return node_add(g, out, after, NULL, n, &p);                                                                   \
    }

/* Of a node, and of its place in an instantiated graph. */
#define SET(symbol, value, q, node_type, place)                                                                        \
    CALL(symbol, CALL_CONTEXT, CUgraphNode n, UNWRAP value) {                                                          \
        READ(node_type, place, q);                                                                                     \
        return body_cuGraphNodeSetParams(c, n, &p);                                                                    \
    }
#define SET_EXEC(symbol, value, q, node_type, place)                                                                   \
    CALL(symbol, CALL_CONTEXT, CUgraphExec e, CUgraphNode n, UNWRAP value) {                                           \
        READ(node_type, place, q);                                                                                     \
        return body_cuGraphExecNodeSetParams(c, e, n, &p);                                                             \
    }

/* All calls on the nodes of a type that has a structure. given: how it is given where its context is, too. */
#define STRUCTURE(kind, version, structure, given, node_type, place)                                                   \
    GET(cuGraph##kind##NodeGetParams##version, structure, node_type, place)                                            \
    ADD(cuGraphAdd##kind##Node##version, given, q, node_type, place)                                                   \
    SET(cuGraph##kind##NodeSetParams##version, (const structure *q), q, node_type, place)                              \
    SET_EXEC(cuGraphExec##kind##NodeSetParams##version, given, q, node_type, place)

#define EVENT(kind, node_type, place)                                                                                  \
    GET(cuGraphEvent##kind##NodeGetEvent, CUevent, node_type, place)                                                   \
    ADD(cuGraphAddEvent##kind##Node, (CUevent event), &event, node_type, place)                                        \
    SET(cuGraphEvent##kind##NodeSetEvent, (CUevent event), &event, node_type, place)                                   \
    SET_EXEC(cuGraphExecEvent##kind##NodeSetEvent, (CUevent event), &event, node_type, place)

STRUCTURE(Kernel, , CUDA_KERNEL_NODE_PARAMS_v1, (const CUDA_KERNEL_NODE_PARAMS_v1 *q), CU_GRAPH_NODE_TYPE_KERNEL,
          kernel)
STRUCTURE(Kernel, _v2, CUDA_KERNEL_NODE_PARAMS, (const CUDA_KERNEL_NODE_PARAMS *q), CU_GRAPH_NODE_TYPE_KERNEL, kernel)
STRUCTURE(Memcpy, , CUDA_MEMCPY3D, (const CUDA_MEMCPY3D *q, CUcontext ctx), CU_GRAPH_NODE_TYPE_MEMCPY,
          memcpy.copyParams)
STRUCTURE(Memset, , CUDA_MEMSET_NODE_PARAMS, (const CUDA_MEMSET_NODE_PARAMS *q, CUcontext ctx),
          CU_GRAPH_NODE_TYPE_MEMSET, memset)
STRUCTURE(Host, , CUDA_HOST_NODE_PARAMS, (const CUDA_HOST_NODE_PARAMS *q), CU_GRAPH_NODE_TYPE_HOST, host)
STRUCTURE(BatchMemOp, , CUDA_BATCH_MEM_OP_NODE_PARAMS, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *q),
          CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, memOp)
EVENT(Record, CU_GRAPH_NODE_TYPE_EVENT_RECORD, eventRecord)
EVENT(Wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT, eventWait)
ADD(cuGraphAddChildGraphNode, (CUgraph child), &child, CU_GRAPH_NODE_TYPE_GRAPH, graph)
GET(cuGraphChildGraphNodeGetGraph, CUgraph, CU_GRAPH_NODE_TYPE_GRAPH, graph)
ADD(cuGraphAddMemFreeNode, (CUdeviceptr address), &address, CU_GRAPH_NODE_TYPE_MEM_FREE, free)
GET(cuGraphMemFreeNodeGetParams, CUdeviceptr, CU_GRAPH_NODE_TYPE_MEM_FREE, free)
GET(cuGraphMemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS, CU_GRAPH_NODE_TYPE_MEM_ALLOC, alloc)

CALL(cuGraphAddMemAllocNode, CALL_CONTEXT, CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
     CUDA_MEM_ALLOC_NODE_PARAMS *q) {
    READ(CU_GRAPH_NODE_TYPE_MEM_ALLOC, alloc, q);
    CUresult result = node_add(g, out, after, NULL, n, &p);
    q->dptr = p.alloc.dptr;
    return result;
}

CALL(cuGraphAddEmptyNode, CALL_CONTEXT, CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n) {
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return node_add(g, out, after, NULL, n, &p);
}

CALL(cuGraphAddNode, CALL_CONTEXT, CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
     CUgraphNodeParams *p) {
    return node_add(g, out, after, NULL, n, p);
}

CALL(cuGraphAddNode_v2, CALL_CONTEXT, CUgraphNode *out, CUgraph g, const CUgraphNode *after,
     const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p) {
    return node_add(g, out, after, edges, n, p);
}

CALL(cuGraphNodeSetParams, CALL_CONTEXT, CUgraphNode n, CUgraphNodeParams *p) {
    INVALID_IF(!n || !p);
    return work_set_params(&n->work, n->type, p);
}

CALL(cuGraphNodeGetType, CALL_DRIVER, CUgraphNode n, CUgraphNodeType *type) {
    INVALID_IF(!n || !type);
    *type = n->type;
    return CUDA_SUCCESS;
}

/* --- a graph's own allocations --- */

CALL(cuDeviceGraphMemTrim, CALL_DRIVER, CUdevice d) {
    CHECK_DEVICE(d);
    graph_memory_trim(&devices[d]);
    return CUDA_SUCCESS;
}

CALL(cuDeviceGetGraphMemAttribute, CALL_DRIVER, CUdevice d, CUgraphMem_attribute id, void *value) {
    INVALID_IF(!value);
    CHECK_DEVICE(d);
    bool high = id == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || id == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    uint64_t bytes = atomic_load(high ? &devices[d].graph_high : &devices[d].graph_reserved);
    memcpy(value, &bytes, sizeof bytes);
    return CUDA_SUCCESS;
}
