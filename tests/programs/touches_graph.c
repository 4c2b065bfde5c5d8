/* Graphs: captured, built by hand, changed before and after they are instantiated. */
#include "touches.h"

USE(cuMemcpyAsync)
USE(cuMemsetD32Async)
USE(cuLaunchKernel)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphCreate)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphAddKernelNode_v2)
USE(cuGraphAddMemsetNode)
USE(cuGraphAddMemcpyNode)
USE(cuGraphAddChildGraphNode)
USE(cuGraphExecKernelNodeSetParams_v2)
USE(cuGraphExecUpdate_v2)
USE(cuGraphNodeSetEnabled)
USE(cuGraphGetNodes)
USE(cuGraphNodeGetType)
USE(cuGraphDestroyNode)
USE(cuGraphKernelNodeSetParams_v2)
USE(cuGraphMemsetNodeSetParams)
USE(cuGraphMemcpyNodeSetParams)
USE(cuStreamWaitValue32_v2)
USE(cuGraphAddNode)
USE(cuGraphAddNode_v2)
USE(cuStreamBatchMemOp_v2)
USE(cuGraphAddBatchMemOpNode)
USE(cuGraphExecBatchMemOpNodeSetParams)
USE(cuGraphBatchMemOpNodeSetParams)

static CUDA_KERNEL_NODE_PARAMS axpy_node(void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS){kernel("axpy"), 1, 1, 1, 1, 1, 1, .kernelParams = parameters};
}

static CUgraph captured(CUdeviceptr x, CUdeviceptr y) {
    CUgraph graph;
    struct axpy p = {3, x, y, N / 2};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n};
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cuMemsetD32Async(x, 0, 100, stream));
    MUST(cuLaunchKernel(kernel("axpy"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    MUST(cuMemcpyAsync(x + 8000, y, 600, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    return graph;
}

void graphs(CUdeviceptr x, CUdeviceptr y) {
    CUgraphExec exec;
    CUgraph first = captured(x, y), by_hand, second = captured(y, x);
    MUST(cuGraphInstantiateWithFlags(&exec, first, 0));
    emu_log(1);
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-captured", 1);
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-again", 1);
    CUgraphExecUpdateResultInfo how;
    MUST(cuGraphExecUpdate_v2(exec, second, &how));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-updated", 1);

    CUgraphNode set, launch, copy, child;
    struct axpy p = {3, x, y, N}, other = {3, x + 4096, y + 4096, N / 4};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n}, *others[] = {&other.a, &other.x, &other.y, &other.n};
    CUDA_KERNEL_NODE_PARAMS k = axpy_node(parameters);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = y, .pitch = 256, .elementSize = 4, .width = 20, .height = 5};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = x,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = y,
                       .dstPitch = 64,
                       .WidthInBytes = 64,
                       .Height = 4,
                       .Depth = 1};
    MUST(cuGraphCreate(&by_hand, 0));
    MUST(cuGraphAddMemsetNode(&set, by_hand, NULL, 0, &m, context));
    MUST(cuGraphAddKernelNode_v2(&launch, by_hand, &set, 1, &k));
    MUST(cuGraphAddMemcpyNode(&copy, by_hand, &launch, 1, &c, context));
    MUST(cuGraphAddChildGraphNode(&child, by_hand, &copy, 1, first));
    MUST(cuGraphInstantiateWithFlags(&exec, by_hand, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-by-hand", 2);
    k.kernelParams = others;
    MUST(cuGraphExecKernelNodeSetParams_v2(exec, launch, &k));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-node-set", 2);
    MUST(cuGraphNodeSetEnabled(exec, launch, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-node-off", 1);
}

/* Nodes by the call that makes every kind. */
void any_nodes(CUdeviceptr x, CUdeviceptr y) {
    struct axpy p = {3, x, y, N};
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode set, launch, copy;
    CUgraphNodeParams s = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                           .memset = {.dst = x, .elementSize = 4, .width = N, .height = 1, .ctx = context}};
    CUgraphNodeParams k = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = {kernel("axpy"), 1, 1, 1, 1, 1, 1, .kernelParams = (void *[]){&p.a, &p.x, &p.y, &p.n}}};
    CUgraphNodeParams c = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                           .memcpy = {.copyCtx = context,
                                      .copyParams = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                                     .srcDevice = y,
                                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                                     .dstDevice = x + 8192,
                                                     .WidthInBytes = 512,
                                                     .Height = 1,
                                                     .Depth = 1}}};
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddNode(&set, graph, NULL, 0, &s));
    MUST(cuGraphAddNode(&launch, graph, &set, 1, &k));
    MUST(cuGraphAddNode_v2(&copy, graph, &launch, NULL, 1, &c));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-any-nodes", 1);
}

/* What was captured is changed, and some of it replaced, before the graph is instantiated. */
void changed(CUdeviceptr x, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node[16];
    size_t n = 16;
    struct axpy p = {3, a, b, N};
    CUDA_KERNEL_NODE_PARAMS k = axpy_node((void *[]){&p.a, &p.x, &p.y, &p.n});
    CUDA_MEMSET_NODE_PARAMS m = {.dst = a + 8192, .elementSize = 4, .width = 20, .height = 1};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = a + 16384,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = b + 16384,
                       .WidthInBytes = 64,
                       .Height = 1,
                       .Depth = 1};
    graph = captured(x, y);
    MUST(cuGraphGetNodes(graph, node, &n));
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        MUST(cuGraphNodeGetType(node[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_KERNEL)
            MUST(cuGraphKernelNodeSetParams_v2(node[i], &k));
        else if (type == CU_GRAPH_NODE_TYPE_MEMSET)
            MUST(cuGraphMemsetNodeSetParams(node[i], &m));
        else
            MUST(cuGraphMemcpyNodeSetParams(node[i], &c));
    }
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-captured-changed", 1);

    n = 16;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (size_t i = 0; i < n; i++)
        MUST(cuMemsetD32Async(x, 0, 100, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphGetNodes(graph, node, &n));
    for (size_t i = 0; i < n; i++)
        MUST(cuGraphDestroyNode(node[i]));
    for (size_t i = 0; i < n; i++) /* where the others were, perhaps */
        MUST(cuGraphAddMemsetNode(&node[i], graph, NULL, 0, &m, context));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-captured-replaced", 0);
}

static CUstreamBatchMemOpParams word(CUdeviceptr p, size_t bytes) {
    CUstreamBatchMemOpType what = bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64;
    return (CUstreamBatchMemOpParams){.writeValue = {.operation = what, .address = p, .value64 = 5}};
}

/* Lists of words: issued; captured, and changed before it is instantiated; by hand, and changed after. */
void words(CUdeviceptr a, CUdeviceptr b) {
    CUstreamBatchMemOpParams list[] = {word(a + 64, 8), {.operation = CU_STREAM_MEM_OP_BARRIER}, word(b + 4, 4)};
    CUstreamBatchMemOpParams other[] = {word(a, 4), word(b + 256, 8)};
    CUstreamBatchMemOpParams wait = {
        .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = b + 4, .value = 5}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = context, .count = 3, .paramArray = list}, q = p;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    size_t n = 1;
    q.count = 2;
    q.paramArray = other;
    MUST(cuStreamBatchMemOp_v2(stream, 3, list, 0)), end_of("words", 0);
    MUST(cuStreamBatchMemOp_v2(stream, 1, &wait, 0)), end_of("words-awaited", 0);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cuStreamWaitValue32_v2(stream, b + 4, 5, 0));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("words-awaited-captured", 0);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cuStreamBatchMemOp_v2(stream, 3, list, 0));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("words-captured", 0);
    MUST(cuGraphGetNodes(graph, &node, &n));
    MUST(cuGraphBatchMemOpNodeSetParams(node, &q));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("words-captured-changed", 0);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("words-by-hand", 0);
    MUST(cuGraphExecBatchMemOpNodeSetParams(exec, node, &q));
    MUST(cuGraphLaunch(exec, stream)), end_of("words-node-set", 0);
}
