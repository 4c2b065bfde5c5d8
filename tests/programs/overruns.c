/* Copies and memsets of every kind at random places: within an allocation, over its end, from before its start. What
 * each call answers is printed, and which bytes the memory holds in the end. The arguments: a seed, how many calls, the
 * bytes of an allocation. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyHtoD_v2)
USE(cuCtxSynchronize)
USE(cuArrayCreate_v2)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphCreate)
USE(cuGraphDestroy)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphExecDestroy)
USE(cuGraphLaunch)

enum { BLOCKS = 6, MOST = 4 << 20 };

static uint64_t state;
static uint64_t below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static CUcontext context;
static CUstream stream;
static CUarray array;
static CUdeviceptr block[BLOCKS];
static size_t bytes; /* of each */
static unsigned char host[MOST + 4096];
static CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
static size_t zero, failed;

/* What one call is to touch: `size` bytes as one line, or `rows` of `width` bytes. */
static struct place {
    CUdeviceptr to, from;
    size_t size, pitch, width, rows;
} at;

/* Rows end where the line would. */
static void as_rows(size_t size) {
    at.size = size;
    at.rows = size >= 64 ? 1 + below(4) : 1;
    at.width = 4 * (1 + below(size / at.rows / 4 ? size / at.rows / 4 : 1));
    if (at.width * at.rows > size) {
        at.rows = 1;
        at.width = size;
    }
    at.pitch = at.rows > 1 ? (size - at.width) / (at.rows - 1) / 4 * 4 : at.width;
    at.size = (at.rows - 1) * at.pitch + at.width;
}

/* Of `size` bytes, at most, at a multiple of four: within the block; or over its end; or from before its start to
 * within it. */
static CUdeviceptr place(CUdeviceptr start, size_t size) {
    size_t inside = (bytes - size) / 4 * 4, over = 4 * (1 + below(size / 4));
    switch (below(4)) {
    case 0:
        return start + bytes / 4 * 4 - size + over;
    case 1:
        return over < size ? start - over : start;
    case 2:
        return start + inside;
    default:
        return start + 4 * below(inside / 4 + 1);
    }
}

static void choose(void) {
    size_t most = bytes < MOST / 2 ? bytes : MOST / 2, few = below(2) ? 256 : most;
    as_rows(8 + 4 * below((few - 8) / 4 + 1));
    at.to = place(block[below(BLOCKS)], at.size);
    at.from = place(block[below(BLOCKS)], at.size);
}

static CUDA_MEMCPY3D box(void) {
    bool in = below(3) == 0, out = !in && below(3) == 0;
    return (CUDA_MEMCPY3D){.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .srcHost = host,
                           .srcDevice = in ? 0 : at.from,
                           .srcPitch = at.pitch,
                           .dstMemoryType = out ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .dstHost = host,
                           .dstDevice = out ? 0 : at.to,
                           .dstPitch = at.pitch,
                           .WidthInBytes = at.width,
                           .Height = at.rows,
                           .Depth = 1};
}

static CUDA_MEMCPY2D flat(void) {
    CUDA_MEMCPY3D b = box();
    return (CUDA_MEMCPY2D){.srcMemoryType = b.srcMemoryType,
                           .srcHost = b.srcHost,
                           .srcDevice = b.srcDevice,
                           .srcPitch = b.srcPitch,
                           .dstMemoryType = b.dstMemoryType,
                           .dstHost = b.dstHost,
                           .dstDevice = b.dstDevice,
                           .dstPitch = b.dstPitch,
                           .WidthInBytes = b.WidthInBytes,
                           .Height = b.Height};
}

static CUDA_MEMCPY3D_PEER peer(void) {
    CUDA_MEMCPY3D b = box();
    CUDA_MEMCPY3D_PEER p;
    memcpy(&p, &b, sizeof p);
    p.srcContext = p.dstContext = context;
    return p;
}

static CUmemcpy3DOperand operand(CUdeviceptr p) {
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {p, at.pitch, at.rows, {0, 0}}};
}

static CUDA_MEMCPY3D_BATCH_OP entry(void) {
    return (CUDA_MEMCPY3D_BATCH_OP){.src = operand(at.from),
                                    .dst = operand(at.to),
                                    .extent = {at.width, at.rows, 1},
                                    .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
}

static CUDA_MEMSET_NODE_PARAMS fill(void) {
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = at.to, .pitch = at.pitch, .value = 3, .elementSize = 4, .width = at.width / 4, .height = at.rows};
}

static CUgraphNodeParams any(void) {
    CUDA_MEMSET_NODE_PARAMS f = fill();
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = box()}};
    if (below(2))
        p = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                .memset = {f.dst, f.pitch, f.value, f.elementSize, f.width, f.height, context}};
    return p;
}

struct call {
    const char *name;
    CUresult (*make)(void);
    bool captured; /* it may go into a capture */
};

/* Calls of rows that are made from a table alone: by the test. */
#include "overruns_made.h"

#define STRUCTURE(symbol, value, ...)                                                                                  \
    USE(symbol)                                                                                                        \
    static CUresult make_##symbol(void) {                                                                              \
        __typeof__(value()) v = value();                                                                               \
        return symbol(__VA_ARGS__);                                                                                    \
    }
STRUCTURE(cuMemcpy2D_v2, flat, &v)
STRUCTURE(cuMemcpy2DUnaligned_v2, flat, &v)
STRUCTURE(cuMemcpy2DAsync_v2, flat, &v, stream)
STRUCTURE(cuMemcpy3D_v2, box, &v)
STRUCTURE(cuMemcpy3DAsync_v2, box, &v, stream)
STRUCTURE(cuMemcpy3DPeer, peer, &v)
STRUCTURE(cuMemcpy3DPeerAsync, peer, &v, stream)

/* The second of three entries, or none, is the one at a random place. */
#define LIST(symbol, ...)                                                                                              \
    USE(symbol)                                                                                                        \
    static CUresult make_##symbol(void) {                                                                              \
        CUdeviceptr to[] = {block[0], at.to, block[1]}, from[] = {block[2], at.from, block[3]};                        \
        size_t sizes[] = {64, at.size, 64};                                                                            \
        (void)to, (void)from, (void)sizes;                                                                             \
        return symbol(__VA_ARGS__);                                                                                    \
    }
LIST(cuMemcpyBatchAsync, to, from, sizes, 3, &attributes, &zero, 1, &failed, stream)
LIST(cuMemcpyBatchAsync_v2, to, from, sizes, 3, &attributes, &zero, 1, stream)

#define BOXES(symbol, ...)                                                                                             \
    USE(symbol)                                                                                                        \
    static CUresult make_##symbol(void) {                                                                              \
        CUDA_MEMCPY3D_BATCH_OP one = entry(), list[] = {one, one};                                                     \
        list[0].src.op.ptr.ptr = list[0].dst.op.ptr.ptr = block[0];                                                    \
        (void)list;                                                                                                    \
        return symbol(__VA_ARGS__);                                                                                    \
    }
BOXES(cuMemcpy3DBatchAsync, 2, list, &failed, 0, stream)
BOXES(cuMemcpy3DBatchAsync_v2, 2, list, 0, stream)
BOXES(cuMemcpy3DWithAttributesAsync, &one, 0, stream)

USE(cuMemBatchDecompressAsync)
static CUresult make_cuMemBatchDecompressAsync(void) {
    CUmemDecompressParams p = {.srcNumBytes = at.size,
                               .dstNumBytes = at.size,
                               .dstActBytes = (cuuint32_t *)(uintptr_t)block[5],
                               .src = (const void *)(uintptr_t)at.from,
                               .dst = (void *)(uintptr_t)at.to};
    return cuMemBatchDecompressAsync(&p, 1, 0, &failed, stream);
}

/* --- graphs --- */

static CUgraph graph;
static CUgraphNode node;
static CUgraphExec exec;

/* Launches what was made of it. */
static CUresult run(CUresult status) {
    CUgraphExec made = exec;
    if (status == CUDA_SUCCESS && !made)
        MUST(cuGraphInstantiateWithFlags(&made, graph, 0));
    if (status == CUDA_SUCCESS)
        MUST(cuGraphLaunch(made, stream));
    MUST(cuCtxSynchronize());
    if (made)
        MUST(cuGraphExecDestroy(made));
    MUST(cuGraphDestroy(graph));
    exec = NULL;
    return status;
}

USE(cuGraphAddMemcpyNode)
USE(cuGraphAddMemsetNode)

/* A node that stays within the blocks; the graph is made executable, too, or not. */
static CUresult old_node(bool memset, bool executable) {
    CUDA_MEMSET_NODE_PARAMS f = {.dst = block[0], .value = 4, .elementSize = 1, .width = 8, .height = 1};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = block[0],
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = block[1],
                       .WidthInBytes = 8,
                       .Height = 1,
                       .Depth = 1};
    MUST(cuGraphCreate(&graph, 0));
    MUST(memset ? cuGraphAddMemsetNode(&node, graph, NULL, 0, &f, context)
                : cuGraphAddMemcpyNode(&node, graph, NULL, 0, &c, context));
    if (executable)
        MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return CUDA_SUCCESS;
}

static bool of_memset(const void *v, size_t size) {
    return size == sizeof(CUDA_MEMSET_NODE_PARAMS) ||
           (size == sizeof(CUgraphNodeParams) && ((const CUgraphNodeParams *)v)->type == CU_GRAPH_NODE_TYPE_MEMSET);
}

#define NODE(symbol, value, before, ...)                                                                               \
    USE(symbol)                                                                                                        \
    static CUresult make_##symbol(void) {                                                                              \
        __typeof__(value()) v = value();                                                                               \
        before;                                                                                                        \
        return run(symbol(__VA_ARGS__));                                                                               \
    }
#define NEW  MUST(cuGraphCreate(&graph, 0))
#define OLD  old_node(of_memset(&v, sizeof v), false)
#define EXEC old_node(of_memset(&v, sizeof v), true)
NODE(cuGraphAddNode, any, NEW, &node, graph, NULL, 0, &v)
NODE(cuGraphAddNode_v2, any, NEW, &node, graph, NULL, NULL, 0, &v)
NODE(cuGraphNodeSetParams, any, OLD, node, &v)
NODE(cuGraphMemcpyNodeSetParams, box, OLD, node, &v)
NODE(cuGraphMemsetNodeSetParams, fill, OLD, node, &v)
NODE(cuGraphExecNodeSetParams, any, EXEC, exec, node, &v)
NODE(cuGraphExecMemcpyNodeSetParams, box, EXEC, exec, node, &v, context)
NODE(cuGraphExecMemsetNodeSetParams, fill, EXEC, exec, node, &v, context)

static CUresult make_cuGraphAddMemcpyNode(void) {
    CUDA_MEMCPY3D v = box();
    NEW;
    return run(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &v, context));
}

static CUresult make_cuGraphAddMemsetNode(void) {
    CUDA_MEMSET_NODE_PARAMS v = fill();
    NEW;
    return run(cuGraphAddMemsetNode(&node, graph, NULL, 0, &v, context));
}

#define CALL(symbol) {#symbol, make_##symbol, false}
static const struct call by_hand[] = {CALL(cuMemcpy2D_v2),
                                      CALL(cuMemcpy2DUnaligned_v2),
                                      {"cuMemcpy2DAsync_v2", make_cuMemcpy2DAsync_v2, true},
                                      CALL(cuMemcpy3D_v2),
                                      {"cuMemcpy3DAsync_v2", make_cuMemcpy3DAsync_v2, true},
                                      CALL(cuMemcpy3DPeer),
                                      {"cuMemcpy3DPeerAsync", make_cuMemcpy3DPeerAsync, true},
                                      CALL(cuMemcpyBatchAsync),
                                      CALL(cuMemcpyBatchAsync_v2),
                                      CALL(cuMemcpy3DBatchAsync),
                                      CALL(cuMemcpy3DBatchAsync_v2),
                                      CALL(cuMemcpy3DWithAttributesAsync),
                                      CALL(cuMemBatchDecompressAsync),
                                      CALL(cuGraphAddMemcpyNode),
                                      CALL(cuGraphAddMemsetNode),
                                      CALL(cuGraphAddNode),
                                      CALL(cuGraphAddNode_v2),
                                      CALL(cuGraphNodeSetParams),
                                      CALL(cuGraphMemcpyNodeSetParams),
                                      CALL(cuGraphMemsetNodeSetParams),
                                      CALL(cuGraphExecNodeSetParams),
                                      CALL(cuGraphExecMemcpyNodeSetParams),
                                      CALL(cuGraphExecMemsetNodeSetParams)};

/* --- the program --- */

static CUresult capture(const struct call *c) {
    CUgraph made;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult status = c->make();
    MUST(cuStreamEndCapture(stream, &made));
    graph = made;
    return run(status);
}

static void one_call(unsigned n) {
    size_t made = sizeof made_calls / sizeof *made_calls, all = made + sizeof by_hand / sizeof *by_hand, i = below(all);
    const struct call *c = i < made ? &made_calls[i] : &by_hand[i - made];
    bool captured = c->captured && below(3) == 0;
    failed = 77;
    choose();
    CUresult status = captured ? capture(c) : c->make();
    MUST(cuCtxSynchronize());
    printf("%u %s%s: %d, %zd\n", n, c->name, captured ? ", captured" : "", (int)status, (ssize_t)failed);
}

/* Begins inside an allocation, or is in none. */
static void free_elsewhere(void) {
    CUresult status = cuMemFree_v2(block[below(BLOCKS)] + 1 + below(bytes - 1));
    printf("free: %d\n", (int)status);
}

static void contents(int b) {
    uint64_t sum = 14695981039346656037u;
    for (size_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < MOST ? bytes - done : MOST;
        MUST(cuMemcpyDtoH_v2(host, block[b] + done, part));
        for (size_t i = 0; i < part; i++)
            sum = (sum ^ host[i]) * 1099511628211u;
    }
    printf("block %d: %016llx\n", b, (unsigned long long)sum);
}

int main(int argc, char **argv) {
    unsigned calls = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
    state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    bytes = argc > 3 ? strtoull(argv[3], NULL, 0) : 8 << 20;
    context = use_device();
    MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    MUST(cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){MOST, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1}));
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (unsigned char)below(256);
    CUdeviceptr first; /* before it there may be no address of the device */
    MUST(cuMemAlloc_v2(&first, bytes));
    for (int b = 0; b < BLOCKS; b++) {
        MUST(b % 2 ? cuMemAllocAsync(&block[b], bytes, stream) : cuMemAlloc_v2(&block[b], bytes));
        MUST(cuCtxSynchronize());
        for (size_t done = 0; done < bytes; done += MOST)
            MUST(cuMemcpyHtoD_v2(block[b] + done, host, bytes - done < MOST ? bytes - done : MOST));
    }
    for (unsigned n = 0; n < calls; n++) {
        one_call(n);
        if (below(10) == 0)
            free_elsewhere();
    }
    for (int b = 0; b < BLOCKS; b++)
        contents(b);
    return 0;
}
