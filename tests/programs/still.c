/* Copies and memsets become nodes of graphs, captured and made, while another thread works over the budget.
 *
 *   still ROUNDS
 *
 * Prints what a node has set in each block in the end. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "device.h"

USE(cuGraphAddMemcpyNode)
USE(cuGraphAddMemsetNode)
USE(cuGraphCreate)
USE(cuGraphDestroy)
USE(cuGraphExecDestroy)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuMemAlloc_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemsetD32Async)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuStreamSynchronize)

enum { BLOCK = 4 << 20, BLOCKS = 10, MINE = 4 };

static CUcontext context;
static CUdeviceptr block[BLOCKS];
static bool finished;

/* The blocks behind MINE come, and so the others leave. */
static void *sweep(void *unused) {
    MUST(cuCtxSetCurrent(context));
    CUstream s = new_stream();
    while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < BLOCKS; i++)
            if (i >= MINE)
                MUST(cuMemsetD32Async(block[i], 1, BLOCK / 4, s));
        MUST(cuStreamSynchronize(s));
    }
    return unused;
}

static void capture(unsigned value, CUstream s, CUgraph *graph) {
    MUST(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cuMemsetD32Async(block[0], value, BLOCK / 4, s));
    for (int i = 1; i < MINE; i++)
        MUST(cuMemcpyDtoDAsync_v2(block[i], block[i - 1], BLOCK, s));
    MUST(cuStreamEndCapture(s, graph));
}

static void make(unsigned value, CUgraph *graph) {
    CUgraphNode before = NULL, node;
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = block[0], .value = value, .elementSize = 4, .width = BLOCK / 4, .height = 1, .pitch = BLOCK};
    MUST(cuGraphCreate(graph, 0));
    MUST(cuGraphAddMemsetNode(&before, *graph, NULL, 0, &set, context));
    for (int i = 1; i < MINE; i++) {
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = block[i - 1],
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = block[i],
                              .WidthInBytes = BLOCK,
                              .Height = 1,
                              .Depth = 1};
        MUST(cuGraphAddMemcpyNode(&node, *graph, &before, 1, &copy, context));
        before = node;
    }
}

static void run(CUgraph graph, CUstream s) {
    CUgraphExec exec;
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, s));
    MUST(cuStreamSynchronize(s));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}

int main(int argc, char **argv) {
    pthread_t other;
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1, value;
    context = use_device();
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    CUstream s = new_stream();
    if (pthread_create(&other, NULL, sweep, NULL))
        return 2;
    for (unsigned n = 0; n < rounds; n++) {
        CUgraph graph;
        if (n % 2)
            make(n, &graph);
        else
            capture(n, s, &graph);
        run(graph, s);
    }
    __atomic_store_n(&finished, true, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    for (int i = 0; i < MINE; i++) {
        MUST(cuMemcpyDtoH_v2(&value, block[i] + BLOCK - 4, 4));
        printf("%u\n", value);
    }
    return 0;
}
