/* The calls that make executable graphs, change and destroy them: each tells graph.c. */
#include "driver/real.h"
#include "interpose/record/parameters.h"
#include "interpose/wrappers/graph.h"

CUresult custom_cuGraphInstantiate(int variant, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                   char *logBuffer, size_t bufferSize) {
    CUresult status = REAL(cuGraphInstantiate, variant)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    exec_made(status, phGraphExec, hGraph, 0);
    return status;
}

CUresult custom_cuGraphInstantiate_v2(int variant, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                      char *logBuffer, size_t bufferSize) {
    CUresult status = REAL(cuGraphInstantiate_v2, variant)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    exec_made(status, phGraphExec, hGraph, 0);
    return status;
}

CUresult custom_cuGraphInstantiateWithFlags(int variant, CUgraphExec *phGraphExec, CUgraph hGraph,
                                            unsigned long long flags) {
    CUresult status = REAL(cuGraphInstantiateWithFlags, variant)(phGraphExec, hGraph, flags);
    exec_made(status, phGraphExec, hGraph, flags);
    return status;
}

CUresult custom_cuGraphInstantiateWithParams(int variant, CUgraphExec *phGraphExec, CUgraph hGraph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    CUresult status = REAL(cuGraphInstantiateWithParams, variant)(phGraphExec, hGraph, instantiateParams);
    exec_made(status, phGraphExec, hGraph, instantiateParams ? instantiateParams->flags : 0);
    return status;
}

CUresult custom_cuGraphExecDestroy(int variant, CUgraphExec hGraphExec) {
    struct exec *e = exec_take(hGraphExec); /* before another thread's may have its handle */
    CUresult status = REAL(cuGraphExecDestroy, variant)(hGraphExec);
    exec_destroyed(e, status, hGraphExec);
    return status;
}

CUresult custom_cuGraphExecUpdate(int variant, CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                  CUgraphExecUpdateResult *updateResult_out) {
    CUresult status = REAL(cuGraphExecUpdate, variant)(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
    if (status == CUDA_SUCCESS)
        exec_update(hGraphExec, hGraph);
    return status;
}

CUresult custom_cuGraphExecUpdate_v2(int variant, CUgraphExec hGraphExec, CUgraph hGraph,
                                     CUgraphExecUpdateResultInfo *resultInfo) {
    CUresult status = REAL(cuGraphExecUpdate_v2, variant)(hGraphExec, hGraph, resultInfo);
    if (status == CUDA_SUCCESS)
        exec_update(hGraphExec, hGraph);
    return status;
}

CUresult custom_cuGraphExecKernelNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    CUresult status = REAL(cuGraphExecKernelNodeSetParams, variant)(hGraphExec, hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_kernel_v1(nodeParams));
    return status;
}

CUresult custom_cuGraphExecKernelNodeSetParams_v2(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    CUresult status = REAL(cuGraphExecKernelNodeSetParams_v2, variant)(hGraphExec, hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_kernel(nodeParams));
    return status;
}

CUresult custom_cuGraphExecMemcpyNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    CUresult status =
        parameters_taken(parameters_copy_refused(copyParams)
                             ?: REAL(cuGraphExecMemcpyNodeSetParams, variant)(hGraphExec, hNode, copyParams, ctx));
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_copy(copyParams));
    return status;
}

CUresult custom_cuGraphExecMemsetNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    CUresult status =
        parameters_taken(parameters_memset_refused(memsetParams)
                             ?: REAL(cuGraphExecMemsetNodeSetParams, variant)(hGraphExec, hNode, memsetParams, ctx));
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_memset(memsetParams));
    return status;
}

CUresult custom_cuGraphExecBatchMemOpNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams) {
    CUresult status = REAL(cuGraphExecBatchMemOpNodeSetParams, variant)(hGraphExec, hNode, nodeParams);
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_words(nodeParams));
    return status;
}

CUresult custom_cuGraphExecChildGraphNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   CUgraph childGraph) {
    CUresult status = REAL(cuGraphExecChildGraphNodeSetParams, variant)(hGraphExec, hNode, childGraph);
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, parameters_of_child(childGraph));
    return status;
}

CUresult custom_cuGraphExecNodeSetParams(int variant, CUgraphExec hGraphExec, CUgraphNode hNode,
                                         CUgraphNodeParams *nodeParams) {
    CUresult status = parameters_taken(parameters_refused(nodeParams)
                                           ?: REAL(cuGraphExecNodeSetParams, variant)(hGraphExec, hNode, nodeParams));
    if (status == CUDA_SUCCESS)
        exec_set(hGraphExec, hNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphNodeSetEnabled(int variant, CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    CUresult status = REAL(cuGraphNodeSetEnabled, variant)(hGraphExec, hNode, isEnabled);
    if (status == CUDA_SUCCESS)
        exec_enable(hGraphExec, hNode, isEnabled != 0);
    return status;
}
