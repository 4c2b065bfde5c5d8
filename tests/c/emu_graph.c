/* Graphs: built by hand, instantiated, launched. */
#include "emu_graph.h"

static void add_one(void *n) {
    ++*(int *)n;
}

TEST(kernels_copies_memsets_and_host_functions) {
    CUcontext c = begin();
    CUgraph g = new_graph();
    CUgraphNode set, times, copy, host;
    CUdeviceptr p = device_memory(64);
    float factor = 2, back = 0;
    uint64_t n = 1;
    int runs = 0;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0x40400000, .elementSize = 4, .width = 1, .height = 1}; /* 3.0 */
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factor, &n);
    CUDA_MEMCPY3D y = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = &back,
                       .WidthInBytes = 4,
                       .Height = 1,
                       .Depth = 1};
    CUDA_HOST_NODE_PARAMS h = {add_one, &runs};
    OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &m, c));
    OK(cuGraphAddKernelNode_v2(&times, g, &set, 1, &k));
    OK(cuGraphAddMemcpyNode(&copy, g, &times, 1, &y, c));
    OK(cuGraphAddHostNode(&host, g, &copy, 1, &h));
    factor = 5; /* arguments were copied */
    CUgraphExec e = instantiate(g);
    OK(cuGraphDestroy(g)); /* the instance lives on */
    launch(e);
    CHECK(back == 6 && runs == 1);
    launch(e);
    CHECK(back == 6 && runs == 2);
    OK(cuGraphExecDestroy(e));
}

TEST(edges_decide_the_order) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode a, b, from[4], to[4], nodes[4];
    CUdeviceptr p = device_memory(4);
    float half = 0.5f;
    uint64_t n = 1;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0x41000000, .elementSize = 4, .width = 1, .height = 1}; /* 8.0 */
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &half, &n);
    OK(cuGraphAddKernelNode_v2(&b, g, NULL, 0, &k)); /* made first, runs second */
    OK(cuGraphAddMemsetNode(&a, g, NULL, 0, &m, NULL));
    OK(cuGraphAddDependencies(g, &a, &b, 1));
    CHECK_EQ(cuGraphAddDependencies(g, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
    size_t count = 4;
    OK(cuGraphGetEdges(g, from, to, &count));
    CHECK_EQ(count, 1);
    CHECK(from[0] == a && to[0] == b);
    count = 0;
    OK(cuGraphGetNodes(g, NULL, &count));
    CHECK_EQ(count, 2);
    count = 4;
    OK(cuGraphGetRootNodes(g, nodes, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(nodes[0], a);
    CHECK_EQ(nodes[1], 0);
    OK(cuGraphNodeGetDependencies(b, nodes, &count));
    CHECK(count == 1 && nodes[0] == a);
    launch(instantiate(g));
    CHECK(first_float(p) == 4);
    OK(cuGraphAddDependencies(g, &b, &a, 1));
    CUgraphExec e;
    CHECK_EQ(cuGraphInstantiateWithFlags(&e, g, 0), CUDA_ERROR_INVALID_VALUE); /* a circle */
    OK(cuGraphRemoveDependencies(g, &b, &a, 1));
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
}

TEST(child_graphs_and_clones) {
    begin();
    CUdeviceptr p = device_memory(4);
    uint64_t n = 1;
    float factors[2] = {2, 5};
    CUgraph child = new_graph(), parent = new_graph(), other = new_graph(), clone;
    CUgraphNode inner, outer, after, found;
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factors[0], &n), k5 = scale_params(&p, &factors[1], &n);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0x3f800000, .elementSize = 4, .width = 1, .height = 1}; /* 1.0 */
    OK(cuGraphAddKernelNode_v2(&inner, child, NULL, 0, &k));
    OK(cuGraphAddKernelNode_v2(&inner, other, NULL, 0, &k5));
    OK(cuGraphAddMemsetNode(&after, parent, NULL, 0, &m, NULL));
    OK(cuGraphAddChildGraphNode(&outer, parent, &after, 1, child));
    OK(cuGraphAddKernelNode_v2(&after, parent, &outer, 1, &k));
    OK(cuGraphDestroy(child)); /* the node has its own */
    CUgraphExec e = instantiate(parent);
    launch(e);
    CHECK(first_float(p) == 4);
    OK(cuGraphExecChildGraphNodeSetParams(e, outer, other));
    launch(e);
    CHECK(first_float(p) == 10);
    OK(cuGraphClone(&clone, parent));
    OK(cuGraphNodeFindInClone(&found, after, clone));
    CHECK(found != after);
    OK(cuGraphDestroy(parent));
    launch(instantiate(clone));
    CHECK(first_float(p) == 4);
}

TEST(a_graph_allocates_and_frees) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode make, use, drop;
    CUDA_MEM_ALLOC_NODE_PARAMS a = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 3 * MiB};
    kernel("scale");
    size_t before = memory_used();
    uint64_t high;
    OK(cuGraphAddMemAllocNode(&make, g, NULL, 0, &a));
    CHECK(a.dptr != 0);
    CHECK_EQ(memory_used(), before);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = a.dptr, .value = 0, .elementSize = 1, .width = 3 * MiB, .height = 1};
    CHECK_EQ(cuGraphAddMemsetNode(&use, g, &make, 1, &m, NULL), CUDA_SUCCESS);
    OK(cuGraphAddMemFreeNode(&drop, g, &use, 1, a.dptr));
    CUgraphExec e = instantiate(g);
    CHECK_EQ(memory_used(), before);
    launch(e);
    launch(e);
    CHECK_EQ(memory_used(), before + 4 * MiB);
    OK(cuDeviceGraphMemTrim(0));
    CHECK_EQ(memory_used(), before);
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
    CHECK_EQ(high, 4 * MiB);
}

TEST(what_a_graph_leaves_allocated) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode make;
    CUgraphExec strict, lenient;
    CUDA_MEM_ALLOC_NODE_PARAMS a = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 100};
    OK(cuGraphAddMemAllocNode(&make, g, NULL, 0, &a));
    strict = instantiate(g);
    OK(cuGraphInstantiateWithFlags(&lenient, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    launch(strict);
    CHECK_EQ(memory_used(), 2 * MiB);
    CHECK_EQ(cuGraphLaunch(strict, NULL), CUDA_ERROR_INVALID_VALUE);
    launch(lenient);
    launch(lenient);
    OK(cuDeviceGraphMemTrim(0));
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuMemsetD8_v2(a.dptr, 1, 100));
    OK(cuMemFree_v2(a.dptr));
    OK(cuDeviceGraphMemTrim(0));
    CHECK_EQ(memory_used(), 0);
    launch(strict);
}

TEST(events_in_graphs) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    CUgraphNode first, wait, record;
    CUevent go, done;
    CUdeviceptr p = device_memory(4);
    OK(cuEventCreate(&go, 0));
    OK(cuEventCreate(&done, 0));
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 5, .elementSize = 1, .width = 1, .height = 1};
    OK(cuGraphAddEventWaitNode(&wait, g, NULL, 0, go));
    OK(cuGraphAddMemsetNode(&first, g, &wait, 1, &m, NULL));
    OK(cuGraphAddEventRecordNode(&record, g, &first, 1, done));
    CUgraphExec e = instantiate(g);
    _Atomic uint32_t *gate = close_gate(other);
    OK(cuEventRecord(go, other));
    OK(cuGraphLaunch(e, s));
    sleep_ms(10);
    CHECK_EQ(cuEventQuery(done), CUDA_ERROR_NOT_READY);
    *gate = 1;
    OK(cuEventSynchronize(done));
    OK(cuStreamQuery(s));
}

TEST(a_launch_waits_for_what_was_recorded_before_it) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g = new_graph();
    CUgraphNode wait, record, again;
    CUevent go, own;
    OK(cuEventCreate(&go, 0));
    OK(cuEventCreate(&own, 0));
    OK(cuGraphAddEventWaitNode(&wait, g, NULL, 0, go));
    OK(cuGraphAddEventRecordNode(&record, g, &wait, 1, own));
    OK(cuGraphAddEventWaitNode(&again, g, &record, 1, own)); /* its own record: nothing to wait for */
    CUgraphExec e = instantiate(g);
    OK(cuEventRecord(go, other));
    OK(cuStreamSynchronize(other));
    _Atomic uint32_t *before = close_gate(s), *later = close_gate(other);
    OK(cuGraphLaunch(e, s));
    OK(cuEventRecord(go, other)); /* is not what that launch waits for */
    OK(cuEventRecord(own, other));
    *before = 1;
    bool done = false;
    for (int ms = 0; ms < 20000 && !done; ms++) {
        done = cuStreamQuery(s) == CUDA_SUCCESS;
        sleep_ms(1);
    }
    CHECK(done);
    OK(cuGraphLaunch(e, s));
    sleep_ms(10);
    CHECK_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    *later = 1;
    OK(cuStreamSynchronize(s));
}

TEST(generic_nodes) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode node;
    CUdeviceptr p = device_memory(4);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                .memset = {.dst = p, .value = 0x42280000, .elementSize = 4, .width = 1, .height = 1}};
    OK(cuGraphAddNode_v2(&node, g, NULL, NULL, 0, &params));
    params.memset.elementSize = 3;
    CHECK_EQ(cuGraphAddNode_v2(&node, g, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    CHECK_EQ(cuGraphAddNode_v2(&node, g, NULL, NULL, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
    CUgraphExec e;
    OK(cuGraphInstantiateWithParams(&e, g, &how));
    CHECK_EQ(how.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    launch(e);
    CHECK(first_float(p) == 42);
}

TEST(the_log_numbers_the_nodes_of_a_launch) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode first, second;
    CUdeviceptr p = device_memory(8);
    float factor = 2;
    uint64_t n = 2;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0, .elementSize = 4, .width = 2, .height = 1};
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&p, &factor, &n);
    OK(cuGraphAddMemsetNode(&first, g, NULL, 0, &m, NULL));
    OK(cuGraphAddKernelNode_v2(&second, g, &first, 1, &k));
    CUgraphExec e = instantiate(g);
    emu_log(1);
    uint64_t before = emu_operations();
    launch(e);
    struct emu_touch t[4];
    CHECK_EQ(emu_operations(), before + 3);
    CHECK_EQ(emu_log_read(0, t, 4), 2);
    CHECK_EQ(t[0].operation, before + 2);
    CHECK_STR(t[0].name, "memset");
    CHECK_EQ(t[1].operation, before + 3);
    CHECK_STR(t[1].name, "scale");
}

TEST(an_error_inside_a_graph_poisons_the_context) {
    begin();
    CUgraph g = new_graph();
    CUgraphNode node;
    CUdeviceptr nowhere = 0x1000;
    float factor = 2;
    uint64_t n = 2;
    CUDA_KERNEL_NODE_PARAMS k = scale_params(&nowhere, &factor, &n);
    OK(cuGraphAddKernelNode_v2(&node, g, NULL, 0, &k));
    OK(cuGraphLaunch(instantiate(g), NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}
