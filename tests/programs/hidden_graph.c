/* Cases of hidden.c: graphs, whose nodes bring addresses or are told others. */
#define _GNU_SOURCE
#include "framework.h"
#include "hidden.h"
#include "hidden_case.h"

static CUgraphExec exec;
static CUgraphNode kernel_node;
static CUdeviceptr source[1]; /* what the graph copies, changed between its launches */
static uint64_t one = 1;
static uint32_t graph_add = 7;

static CUDA_KERNEL_NODE_PARAMS kernel_parameters(void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS){function("through"), BLOCKS, 1, 1, THREADS, 1, 1, .kernelParams = parameters};
}

void instantiate(CUgraph graph) {
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CALL(cuGraphDestroy, graph);
}

void launch_graph(void) {
    CALL(cuGraphLaunch, exec, out_stream);
}

/* A kernel node by hand, that uses one table or, updated, the other. */
static void graph_updated(void) {
    static CUgraph graph; /* kept: a driver takes no node of a graph that is gone */
    table();
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&slots, &one, &words, &graph_add});
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, NULL, 0, &p);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
}

static void graph_updated_step(uint32_t add) {
    CUdeviceptr here = slots + add % secrets * sizeof *secret;
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&here, &one, &words, &add});
    CALL(cuGraphExecKernelNodeSetParams_v2, exec, kernel_node, &p);
    launch_graph();
}

/* The graph itself brings the address, which is another one at each launch. */
static void graph_copy(void) {
    CUgraph graph;
    CUgraphNode copy_node;
    CUcontext context;
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = source,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = slots,
                       .WidthInBytes = sizeof source,
                       .Height = 1,
                       .Depth = 1};
    source[0] = secret[0];
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&slots, &one, &words, &graph_add});
    CALL(cuCtxGetCurrent, &context);
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddMemcpyNode, &copy_node, graph, NULL, 0, &c, context);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, &copy_node, 1, &p);
    instantiate(graph);
}

/* A node writes the address, the same at each launch. */
static void graph_written(void) {
    CUgraph graph;
    CUgraphNode word_node;
    CUcontext context;
    CUstreamBatchMemOpParams word = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = slots, .value64 = secret[0]}};
    CALL(cuCtxGetCurrent, &context);
    CUDA_BATCH_MEM_OP_NODE_PARAMS words_of = {.ctx = context, .count = 1, .paramArray = &word};
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&slots, &one, &words, &graph_add});
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddBatchMemOpNode, &word_node, graph, NULL, 0, &words_of);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, &word_node, 1, &p);
    instantiate(graph);
}

static void graph_written_step(uint32_t add) {
    (void)add;
    launch_graph();
}

static void captured_copy(void) {
    CUgraph graph;
    source[0] = secret[0];
    CALL(cuStreamBeginCapture_v2, out_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CALL(cuMemcpyHtoDAsync_v2, slots, source, sizeof source, out_stream);
    CALL(cuLaunchKernel, function("through"), BLOCKS, 1, 1, THREADS, 1, 1, 0, out_stream,
         ((void *[]){&slots, &one, &words, &graph_add}), NULL);
    CALL(cuStreamEndCapture, out_stream, &graph);
    instantiate(graph);
}

static void graph_copy_step(uint32_t add) {
    CALL(cuStreamSynchronize, out_stream); /* the launch before has read it */
    source[0] = secret[add % secrets];
    launch_graph();
}

/* A kernel that finds the addresses where another stored them stands for one that launches the graph. */
static void device_graph(void) {
    static CUgraph graph;
    CUgraphNode node;
    CALL(cuGraphCreate, &graph, 0);
    for (uint64_t i = 0; i < secrets; i++) {
        CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&secret[i], &words, &graph_add});
        p.func = function(HIDDEN_OPEN);
        CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &p);
    }
    CALL(cuGraphInstantiateWithFlags, &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
    stored();
}

/* The blocks that a capture uses were divided when its graph is instantiated. */
static void device_blocks(void) {
    static CUgraph graph;
    int64_t bytes = (int64_t)(words * sizeof(uint32_t));
    apart = true;
    CALL(cuStreamBeginCapture_v2, out_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (uint64_t i = 0; i < secrets; i++) {
        report(secret[i], bytes);
        CALL(cuLaunchKernel, function(HIDDEN_OPEN), BLOCKS, 1, 1, THREADS, 1, 1, 0, out_stream,
             ((void *[]){&secret[i], &words, &graph_add}), NULL);
        report(secret[i], -bytes);
        report(secret[i], bytes / 2);
    }
    CALL(cuStreamEndCapture, out_stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
    stored();
}

static CUgraph graph_through(CUdeviceptr *addresses) {
    CUgraph graph;
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){addresses, &secrets, &words, &graph_add});
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, NULL, 0, &p);
    return graph;
}

/* The graph that kernels may launch finds the addresses in pinned memory. A kernel of the graph that is launched, which
 * finds them where another stored them, stands for it. */
static void device_pinned(void) {
    CUdeviceptr addresses;
    void *p;
    CALL(cuMemHostAlloc, &p, secrets * sizeof *secret, CU_MEMHOSTALLOC_DEVICEMAP);
    CALL(cuMemHostGetDevicePointer_v2, &addresses, p, 0);
    CALL(cuGraphInstantiateWithFlags, &exec, graph_through(&addresses), CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
    stored();
    instantiate(graph_through(&slots));
}

/* The table lies in memory that a graph allocated. */
static void graph_memory(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = MOST * sizeof *secret};
    CUgraph graph;
    CUgraphNode node;
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &memory);
    instantiate(graph);
    launch_graph();
    slots = memory.dptr;
    table();
}

const struct hidden_case graph_cases[] = {{"graph_updated", graph_updated, graph_updated_step},
                                          {"graph_copy", graph_copy, graph_copy_step},
                                          {"graph_written", graph_written, graph_written_step},
                                          {"captured_copy", captured_copy, graph_copy_step},
                                          {"device_graph", device_graph, all_through},
                                          {"device_blocks", device_blocks, all_through},
                                          {"device_pinned", device_pinned, graph_written_step},
                                          {"memory_of_graph", graph_memory, all_through},
                                          {0}};
