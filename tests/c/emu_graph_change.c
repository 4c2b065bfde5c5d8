/* Graphs that are changed: parameters of nodes, whole instances, and nodes that are gone. */
#include "emu_graph.h"

TEST(parameters_are_read_back_and_changed) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode node;
    CUdeviceptr p = device_memory(4);
    float factor = 3;
    uint64_t n = 1;
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factor, &n), seen;
    OK(cuGraphAddKernelNode_v2(&node, g, NULL, 0, &k));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(node, &type));
    CHECK_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphKernelNodeGetParams_v2(node, &seen));
    CHECK(*(float *)seen.kernelParams[1] == 3);
    CHECK_EQ(seen.func, kernel("scale"));
    CUgraphExec e = instantiate(g);
    OK(fill(NULL, p, 1, 1));
    factor = 10;
    OK(cuGraphExecKernelNodeSetParams_v2(e, node, &k)); /* the instance only */
    launch(e);
    CHECK(first_float(p) == 10);
    launch(instantiate(g));
    CHECK(first_float(p) == 30);
    OK(cuGraphKernelNodeSetParams_v2(node, &k));
    launch(instantiate(g));
    CHECK(first_float(p) == 300);
    OK(cuGraphNodeSetEnabled(e, node, 0));
    launch(e);
    CHECK(first_float(p) == 300);
}

TEST(a_change_does_not_reach_launches_before_it) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode node;
    CUdeviceptr p = device_memory(4);
    float factor = 2;
    uint64_t n = 1;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factor, &n);
    OK(cuGraphAddKernelNode_v2(&node, g, NULL, 0, &k));
    CUgraphExec e = instantiate(g);
    OK(fill(s, p, 1, 1));
    _Atomic uint32_t *gate = close_gate(s);
    OK(cuGraphLaunch(e, s));
    factor = 7;
    OK(cuGraphExecKernelNodeSetParams_v2(e, node, &k));
    *gate = 1;
    OK(cuStreamSynchronize(s));
    CHECK(first_float(p) == 2);
}

TEST(an_instance_is_updated_from_a_graph_of_the_same_shape) {
    begin();
    CUdeviceptr p = device_memory(4);
    uint64_t n = 1;
    float factors[2] = {2, 3};
    CUgraph graphs[2];
    CUgraphNode node, second;
    for (int i = 0; i < 2; i++) {
        graphs[i] = new_graph();
        CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factors[i], &n);
        OK(cuGraphAddKernelNode_v2(&node, graphs[i], NULL, 0, &k));
        OK(cuGraphAddKernelNode_v2(&second, graphs[i], &node, 1, &k));
    }
    CUgraphExec e = instantiate(graphs[0]);
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate_v2(e, graphs[1], &info));
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(fill(NULL, p, 1, 1));
    launch(e);
    CHECK(first_float(p) == 9);
    OK(cuGraphRemoveDependencies(graphs[1], &node, &second, 1));
    CHECK_EQ(cuGraphExecUpdate_v2(e, graphs[1], &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    CHECK_EQ(info.errorNode, second);
    CUgraph other = new_graph();
    OK(cuGraphAddEmptyNode(&node, other, NULL, 0));
    OK(cuGraphAddEmptyNode(&second, other, &node, 1));
    CHECK_EQ(cuGraphExecUpdate_v2(e, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    launch(e); /* as it was */
    CHECK(first_float(p) == 81);
}

TEST(nodes_that_are_gone_change_no_instance) {
    begin();
    CUdeviceptr p = device_memory(4);
    uint64_t n = 1;
    float factor = 2;
    CUgraph g = new_graph(), child = new_graph(), later;
    CUgraphNode first, second, outer, node;
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factor, &n);
    OK(cuGraphAddEmptyNode(&node, child, NULL, 0));
    OK(cuGraphAddKernelNode_v2(&first, g, NULL, 0, &k));
    OK(cuGraphAddKernelNode_v2(&second, g, &first, 1, &k));
    OK(cuGraphAddChildGraphNode(&outer, g, &second, 1, child));
    CUgraphExec e = instantiate(g);
    factor = 5;
    OK(cuGraphDestroyNode(second));
    CHECK_EQ(cuGraphExecKernelNodeSetParams_v2(e, second, &k), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecKernelNodeSetParams_v2(e, first, &k));
    OK(cuGraphDestroy(g));
    CHECK_EQ(cuGraphExecKernelNodeSetParams_v2(e, first, &k), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphNodeSetEnabled(e, first, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuGraphExecChildGraphNodeSetParams(e, outer, child), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 4; i++) { /* they may lie where the others did */
        later = new_graph();
        OK(cuGraphAddKernelNode_v2(&node, later, NULL, 0, &k));
        CHECK_EQ(cuGraphExecKernelNodeSetParams_v2(e, node, &k), CUDA_ERROR_INVALID_VALUE);
    }
    OK(fill(NULL, p, 1, 1));
    launch(e);
    CHECK(first_float(p) == 10);
}
