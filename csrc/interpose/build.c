/* The calls that build graphs. Nodes are read when the graph is instantiated, but no library's call is open then: a
 * kernel's node that one adds or changes is noted at once, with what it told. */
#include "interpose/graph.h"
#include "interpose/node.h"
#include "interpose/session.h"
#include "launch/told.h"

static CUresult kernel(CUresult status, const CUgraphNode *node, void (*touch)(struct op *, const void *),
                       const void *parameters) {
    if (status != CUDA_SUCCESS || !session_on)
        return status;
    if (told_call()) {
        struct op op = {.touches = thread_self()->touches};
        touch(&op, parameters);
        node_note(*node, &op);
    } else {
        node_forget(*node);
    }
    return status;
}

/* The driver has put a copy of the graph into the node, or the graph itself. */
static CUresult child(CUresult status, const CUgraphNode *node, CUgraph graph) {
    CUgraph inside = status == CUDA_SUCCESS && session_on ? node_child(*node) : NULL;
    if (inside && inside != graph)
        graph_copied(graph, inside);
    return status;
}

static CUresult any(CUresult status, const CUgraphNode *node, const CUgraphNodeParams *p) {
    if (status != CUDA_SUCCESS || !session_on)
        return status;
    if (p->type == CU_GRAPH_NODE_TYPE_KERNEL)
        return kernel(status, node, touch_kernel_v2, &p->kernel);
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return child(status, node, p->graph.graph);
    node_forget(*node);
    return status;
}

static CUresult changed(CUresult status, CUgraphNode node) {
    if (status == CUDA_SUCCESS && session_on)
        node_forget(node);
    return status;
}

/* --- new nodes --- */

CUresult custom_cuGraphAddKernelNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    return kernel(REAL(cuGraphAddKernelNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
                  phGraphNode, touch_kernel_v1, nodeParams);
}

CUresult custom_cuGraphAddKernelNode_v2(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    return kernel(
        REAL(cuGraphAddKernelNode_v2, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        phGraphNode, touch_kernel_v2, nodeParams);
}

CUresult custom_cuGraphAddChildGraphNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph) {
    return child(
        REAL(cuGraphAddChildGraphNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, childGraph),
        phGraphNode, childGraph);
}

CUresult custom_cuGraphAddNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUgraphNodeParams *nodeParams) {
    return any(REAL(cuGraphAddNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
               phGraphNode, nodeParams);
}

CUresult custom_cuGraphAddNode_v2(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                  size_t numDependencies, CUgraphNodeParams *nodeParams) {
    return any(REAL(cuGraphAddNode_v2, variant)(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                                nodeParams),
               phGraphNode, nodeParams);
}

CUresult custom_cuGraphAddNode_v3(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                  size_t numDependencies, CUgraphNodeParams *nodeParams) {
    return any(REAL(cuGraphAddNode_v3, variant)(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                                                nodeParams),
               phGraphNode, nodeParams);
}

CUresult custom_cuGraphClone(int variant, CUgraph *phGraphClone, CUgraph originalGraph) {
    CUresult status = REAL(cuGraphClone, variant)(phGraphClone, originalGraph);
    if (status == CUDA_SUCCESS && session_on)
        graph_copied(originalGraph, *phGraphClone);
    return status;
}

/* --- new parameters --- */

/* The nodes of a child that is replaced end in the call. */
static void replaces(CUgraphNode node, const CUgraphNodeParams *p) {
    if (session_on && p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        node_forget(node);
}

CUresult custom_cuGraphNodeSetParams(int variant, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    replaces(hNode, nodeParams);
    return any(REAL(cuGraphNodeSetParams, variant)(hNode, nodeParams), &hNode, nodeParams);
}

CUresult custom_cuGraphNodeSetParams_v2(int variant, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    replaces(hNode, nodeParams);
    return any(REAL(cuGraphNodeSetParams_v2, variant)(hNode, nodeParams), &hNode, nodeParams);
}

CUresult custom_cuGraphKernelNodeSetParams(int variant, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    return kernel(REAL(cuGraphKernelNodeSetParams, variant)(hNode, nodeParams), &hNode, touch_kernel_v1, nodeParams);
}

CUresult custom_cuGraphKernelNodeSetParams_v2(int variant, CUgraphNode hNode,
                                              const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    return kernel(REAL(cuGraphKernelNodeSetParams_v2, variant)(hNode, nodeParams), &hNode, touch_kernel_v2, nodeParams);
}

CUresult custom_cuGraphMemcpyNodeSetParams(int variant, CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
    return changed(REAL(cuGraphMemcpyNodeSetParams, variant)(hNode, nodeParams), hNode);
}

CUresult custom_cuGraphMemsetNodeSetParams(int variant, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
    return changed(REAL(cuGraphMemsetNodeSetParams, variant)(hNode, nodeParams), hNode);
}

CUresult custom_cuGraphBatchMemOpNodeSetParams(int variant, CUgraphNode hNode,
                                               const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    return changed(REAL(cuGraphBatchMemOpNodeSetParams, variant)(hNode, nodeParams), hNode);
}

/* --- ends --- */

CUresult custom_cuGraphDestroyNode(int variant, CUgraphNode hNode) {
    if (session_on)
        node_forget(hNode);
    return REAL(cuGraphDestroyNode, variant)(hNode);
}

CUresult custom_cuGraphDestroy(int variant, CUgraph hGraph) {
    if (session_on)
        graph_forget(hGraph);
    return REAL(cuGraphDestroy, variant)(hGraph);
}
