/* The calls that build graphs. Nodes are read when the graph is instantiated, but no library's call is open then: a
 * kernel's node that one adds or changes is noted at once, with what it told. */
#include "driver/node.h"
#include "driver/session.h"
#include "interpose/record/parameters.h"
#include "launch/call_extents.h"

/* The driver has put a copy of the graph into the node, or the graph itself. */
static void child(CUgraphNode node, CUgraph graph) {
    CUgraph inside = node_child(node);
    if (inside && inside != graph)
        graph_copied(graph, inside);
}

/* The driver took them. */
static void given(CUgraphNode node, CUgraphNodeParams p) {
    if (!session_on)
        return;
    if (p.type == CU_GRAPH_NODE_TYPE_KERNEL && call_under_way()) {
        struct op op = {.touches = thread_self()->touches};
        parameters_touch(&op, &p);
        node_note(node, &op);
    } else if (p.type == CU_GRAPH_NODE_TYPE_GRAPH) {
        child(node, p.graph.graph);
    } else {
        node_forget(node);
    }
}

/* --- new nodes --- */

CUresult custom_cuGraphAddKernelNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    CUresult status =
        REAL(cuGraphAddKernelNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, parameters_of_kernel_v1(nodeParams));
    return status;
}

CUresult custom_cuGraphAddKernelNode_v2(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    CUresult status =
        REAL(cuGraphAddKernelNode_v2, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, parameters_of_kernel(nodeParams));
    return status;
}

CUresult custom_cuGraphAddMemcpyNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    CUresult status = parameters_taken(parameters_copy_refused(copyParams)
                                           ?: REAL(cuGraphAddMemcpyNode, variant)(phGraphNode, hGraph, dependencies,
                                                                                  numDependencies, copyParams, ctx));
    node_made(status, phGraphNode);
    return status;
}

CUresult custom_cuGraphAddMemsetNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    CUresult status = parameters_taken(parameters_memset_refused(memsetParams)
                                           ?: REAL(cuGraphAddMemsetNode, variant)(phGraphNode, hGraph, dependencies,
                                                                                  numDependencies, memsetParams, ctx));
    node_made(status, phGraphNode);
    return status;
}

CUresult custom_cuGraphAddChildGraphNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                         const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph) {
    CUresult status =
        REAL(cuGraphAddChildGraphNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, childGraph);
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, parameters_of_child(childGraph));
    return status;
}

CUresult custom_cuGraphAddNode(int variant, CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUgraphNodeParams *nodeParams) {
    CUresult status = parameters_taken(
        parameters_refused(nodeParams)
            ?: REAL(cuGraphAddNode, variant)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphAddNode_v2(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                  size_t numDependencies, CUgraphNodeParams *nodeParams) {
    CUresult status =
        parameters_taken(parameters_refused(nodeParams)
                             ?: REAL(cuGraphAddNode_v2, variant)(phGraphNode, hGraph, dependencies, dependencyData,
                                                                 numDependencies, nodeParams));
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphAddNode_v3(int variant, CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                  size_t numDependencies, CUgraphNodeParams *nodeParams) {
    CUresult status =
        parameters_taken(parameters_refused(nodeParams)
                             ?: REAL(cuGraphAddNode_v3, variant)(phGraphNode, hGraph, dependencies, dependencyData,
                                                                 numDependencies, nodeParams));
    if (status == CUDA_SUCCESS)
        given(*phGraphNode, *nodeParams);
    return status;
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
    CUresult status =
        parameters_taken(parameters_refused(nodeParams) ?: REAL(cuGraphNodeSetParams, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS)
        given(hNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphNodeSetParams_v2(int variant, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    replaces(hNode, nodeParams);
    CUresult status =
        parameters_taken(parameters_refused(nodeParams) ?: REAL(cuGraphNodeSetParams_v2, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS)
        given(hNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphKernelNodeSetParams(int variant, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    CUresult status = REAL(cuGraphKernelNodeSetParams, variant)(hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        given(hNode, parameters_of_kernel_v1(nodeParams));
    return status;
}

CUresult custom_cuGraphKernelNodeSetParams_v2(int variant, CUgraphNode hNode,
                                              const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    CUresult status = REAL(cuGraphKernelNodeSetParams_v2, variant)(hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        given(hNode, parameters_of_kernel(nodeParams));
    return status;
}

CUresult custom_cuGraphMemcpyNodeSetParams(int variant, CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) {
    CUresult status = parameters_taken(parameters_copy_refused(nodeParams)
                                           ?: REAL(cuGraphMemcpyNodeSetParams, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS)
        given(hNode, parameters_of_copy(nodeParams));
    return status;
}

CUresult custom_cuGraphMemsetNodeSetParams(int variant, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) {
    CUresult status = parameters_taken(parameters_memset_refused(nodeParams)
                                           ?: REAL(cuGraphMemsetNodeSetParams, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS)
        given(hNode, parameters_of_memset(nodeParams));
    return status;
}

CUresult custom_cuGraphBatchMemOpNodeSetParams(int variant, CUgraphNode hNode,
                                               const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    CUresult status = REAL(cuGraphBatchMemOpNodeSetParams, variant)(hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        given(hNode, parameters_of_words(nodeParams));
    return status;
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
