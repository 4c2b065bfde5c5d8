/* One operation of each kind after another, each waited for; prints what the emulated device says it truly touched.
 *
 * Output: "step NAME KERNELS", then "true MODE ADDRESS BYTES" for each touch; before them "block NAME ADDRESS BYTES".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "emu.h"

/* A formatter would give each name a deeper indent. */
/* clang-format off */
#define USES(X) \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemAlloc_v2) \
    X(cuMemAllocPitch_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemcpy) \
    X(cuMemcpyAsync) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyPeer) X(cuMemcpy2D_v2) X(cuMemcpy2DAsync_v2) \
    X(cuMemcpy3D_v2) X(cuMemsetD8_v2) X(cuMemsetD16_v2) X(cuMemsetD32Async) X(cuMemsetD2D8_v2) \
    X(cuMemsetD2D32Async) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLibraryLoadData) \
    X(cuLibraryGetKernel) X(cuStreamCreate) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) \
    X(cuGraphCreate) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphAddKernelNode_v2) \
    X(cuGraphAddMemsetNode) X(cuGraphAddMemcpyNode) X(cuGraphAddChildGraphNode) \
    X(cuGraphExecKernelNodeSetParams_v2) X(cuGraphExecUpdate_v2) X(cuGraphNodeSetEnabled) \
    X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphDestroyNode) X(cuGraphKernelNodeSetParams_v2) \
    X(cuGraphMemsetNodeSetParams) X(cuGraphMemcpyNodeSetParams) X(cuMemcpyBatchAsync_v2) X(cuStreamWriteValue32_v2) X(cuLaunchHostFunc)
/* clang-format on */
#define X(f) extern __typeof__(*(pfn_##f)NULL) f;
USES(X)
#undef X

enum { N = 1000, ROWS = 7, WIDTH = 100 };

static CUcontext context;
static CUstream stream;
static CUmodule module;

static void check(CUresult status, int line) {
    if (status == CUDA_SUCCESS)
        return;
    printf("line %d: error %d\n", line, (int)status);
    exit(1);
}
#define OK(call) check((call), __LINE__)

/* Waits for the step's operations and prints what they touched. */
static void end_of(const char *name, int kernels) {
    static struct emu_touch log[256];
    OK(cuCtxSynchronize());
    size_t n = emu_log_read(0, log, 256);
    printf("step %s %d\n", name, kernels);
    for (size_t i = 0; i < n; i++)
        printf("true %u %llu %llu\n", log[i].mode, (unsigned long long)log[i].address,
               (unsigned long long)log[i].bytes);
    emu_log(1);
}

static CUdeviceptr block(const char *name, size_t bytes) {
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, bytes));
    printf("block %s %llu %zu\n", name, (unsigned long long)p, bytes);
    return p;
}

static CUfunction kernel(const char *name) {
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static void copies(CUdeviceptr a, CUdeviceptr b) {
    static char host[1 << 20];
    OK(cuMemcpyHtoD_v2(a + 64, host, 1000)), end_of("HtoD", 0);
    OK(cuMemcpyDtoH_v2(host, a, 500)), end_of("DtoH", 0);
    OK(cuMemcpyDtoD_v2(b + 8, a + 4, 3000)), end_of("DtoD", 0);
    OK(cuMemcpy(b, (CUdeviceptr)(uintptr_t)host, 700)), end_of("unified", 0);
    OK(cuMemcpyAsync(a, b, 4000, stream)), end_of("unified-async", 0);
    OK(cuMemcpyHtoDAsync_v2(a, host, 128, stream)), end_of("HtoD-async", 0);
    OK(cuMemcpyPeer(b, context, a, context, 2000)), end_of("peer", 0);
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = a,
                          .srcPitch = 256,
                          .srcXInBytes = 16,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = b,
                          .dstPitch = 128,
                          .dstXInBytes = 4,
                          .dstY = 1,
                          .WidthInBytes = WIDTH,
                          .Height = ROWS};
    OK(cuMemcpy2D_v2(&flat)), end_of("2D", 0);
    flat.dstMemoryType = CU_MEMORYTYPE_HOST;
    flat.dstHost = host;
    OK(cuMemcpy2DAsync_v2(&flat, stream)), end_of("2D-to-host", 0);
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = a,
                         .srcPitch = 128,
                         .srcHeight = 10,
                         .srcZ = 1,
                         .srcY = 1,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = b,
                         .dstPitch = 128,
                         .dstHeight = 8,
                         .dstXInBytes = 8,
                         .WidthInBytes = WIDTH,
                         .Height = ROWS,
                         .Depth = 3};
    OK(cuMemcpy3D_v2(&box)), end_of("3D", 0);
    CUdeviceptr to[2] = {b, b + 4096}, from[2] = {a, a + 8192};
    size_t bytes[2] = {100, 200}, index = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &how, &index, 1, stream)), end_of("batch", 0);
}

static void memsets(CUdeviceptr a, CUdeviceptr pitched, size_t pitch) {
    OK(cuMemsetD8_v2(a + 1, 1, 33)), end_of("set8", 0);
    OK(cuMemsetD16_v2(a + 2, 1, 33)), end_of("set16", 0);
    OK(cuMemsetD32Async(a + 4, 1, 33, stream)), end_of("set32", 0);
    OK(cuMemsetD2D8_v2(pitched + 3, pitch, 1, WIDTH, ROWS)), end_of("set2D8", 0);
    OK(cuMemsetD2D32Async(pitched, pitch, 1, WIDTH / 4, ROWS, stream)), end_of("set2D32", 0);
    OK(cuStreamWriteValue32_v2(stream, a, 7, 0)), end_of("write-value", 0);
}

struct axpy {
    float a;
    CUdeviceptr x, y;
    uint64_t n;
};

static void launches(CUdeviceptr x, CUdeviceptr y) {
    struct axpy p = {2, x, y, N};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n};
    size_t bytes = sizeof p;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    CUfunction axpy = kernel("axpy");
    CUlibrary library;
    CUkernel same;
    config.hStream = stream;
    OK(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch", 1);
    OK(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra)), end_of("launch-extra", 1);
    OK(cuLaunchKernelEx(&config, axpy, parameters, NULL)), end_of("launch-ex", 1);
    OK(cuLaunchCooperativeKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters)), end_of("launch-cooperative", 1);
    OK(cuLibraryLoadData(&library, EMU_BUILTIN, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&same, library, "axpy"));
    OK(cuLaunchKernel((CUfunction)same, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-library", 1);
}

static void structure(CUdeviceptr arena) {
    struct {
        uint32_t count, reserved;
        CUdeviceptr weight[8], gradient[8], mean[8], square[8];
        uint64_t elements[8];
    } t = {.count = 8};
    float rate = 0.1f;
    uint32_t step = 1;
    for (int k = 0; k < 8; k++) {
        t.weight[k] = arena + (size_t)(4 * k) * 4096;
        t.gradient[k] = t.weight[k] + 4096;
        t.mean[k] = t.weight[k] + 8192;
        t.square[k] = t.weight[k] + 12288;
        t.elements[k] = 900;
    }
    void *parameters[] = {&t, &rate, &step};
    OK(cuLaunchKernel(kernel("adam"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-structure", 1);
}

static CUDA_KERNEL_NODE_PARAMS axpy_node(void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel("axpy"),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = parameters};
}

static CUgraph captured(CUdeviceptr x, CUdeviceptr y) {
    CUgraph graph;
    struct axpy p = {3, x, y, N / 2};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n};
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(x, 0, 100, stream));
    OK(cuLaunchKernel(kernel("axpy"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    OK(cuMemcpyAsync(x + 8000, y, 600, stream));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void graphs(CUdeviceptr x, CUdeviceptr y) {
    CUgraphExec exec;
    CUgraph first = captured(x, y), by_hand, second = captured(y, x);
    OK(cuGraphInstantiateWithFlags(&exec, first, 0));
    emu_log(1);
    OK(cuGraphLaunch(exec, stream)), end_of("graph-captured", 1);
    OK(cuGraphLaunch(exec, stream)), end_of("graph-again", 1);
    CUgraphExecUpdateResultInfo how;
    OK(cuGraphExecUpdate_v2(exec, second, &how));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-updated", 1);

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
    OK(cuGraphCreate(&by_hand, 0));
    OK(cuGraphAddMemsetNode(&set, by_hand, NULL, 0, &m, context));
    OK(cuGraphAddKernelNode_v2(&launch, by_hand, &set, 1, &k));
    OK(cuGraphAddMemcpyNode(&copy, by_hand, &launch, 1, &c, context));
    OK(cuGraphAddChildGraphNode(&child, by_hand, &copy, 1, first));
    OK(cuGraphInstantiateWithFlags(&exec, by_hand, 0));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-by-hand", 2);
    k.kernelParams = others;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, launch, &k));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-node-set", 2);
    OK(cuGraphNodeSetEnabled(exec, launch, 0));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-node-off", 1);
}

/* What was captured is changed, and some of it replaced, before the graph is instantiated. */
static void changed(CUdeviceptr x, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b) {
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
    OK(cuGraphGetNodes(graph, node, &n));
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        OK(cuGraphNodeGetType(node[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_KERNEL)
            OK(cuGraphKernelNodeSetParams_v2(node[i], &k));
        else if (type == CU_GRAPH_NODE_TYPE_MEMSET)
            OK(cuGraphMemsetNodeSetParams(node[i], &m));
        else
            OK(cuGraphMemcpyNodeSetParams(node[i], &c));
    }
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-captured-changed", 1);

    n = 16;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (size_t i = 0; i < n; i++)
        OK(cuMemsetD32Async(x, 0, 100, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, node, &n));
    for (size_t i = 0; i < n; i++)
        OK(cuGraphDestroyNode(node[i]));
    for (size_t i = 0; i < n; i++) /* where the others were, perhaps */
        OK(cuGraphAddMemsetNode(&node[i], graph, NULL, 0, &m, context));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream)), end_of("graph-captured-replaced", 0);
}

static void nothing(void *unused) {
    (void)unused;
}

/* Pointers that no argument shows: in an array that was copied in, in a variable of the module. */
static void hidden(CUdeviceptr y, CUdeviceptr table, CUdeviceptr behind) {
    CUdeviceptr rows[4], variable;
    uint32_t n = 4, width = 64;
    uint64_t many = 100;
    float value = 1;
    size_t bytes;
    for (int i = 0; i < 4; i++)
        rows[i] = behind + (size_t)i * 4096;
    OK(cuMemcpyHtoD_v2(table, rows, sizeof rows)), end_of("table-copied", 0);
    void *gather[] = {&y, &table, &n, &width};
    OK(cuLaunchKernel(kernel("gather"), 1, 1, 1, 1, 1, 1, 0, stream, gather, NULL)), end_of("hidden-table", 1);
    OK(cuModuleGetGlobal_v2(&variable, &bytes, module, "hidden"));
    OK(cuMemcpyHtoD_v2(variable, &behind, sizeof behind)), end_of("variable-copied", 0);
    void *write[] = {&value, &many};
    OK(cuLaunchKernel(kernel("write_hidden"), 1, 1, 1, 1, 1, 1, 0, stream, write, NULL)), end_of("hidden-variable", 1);
    OK(cuLaunchHostFunc(stream, nothing, NULL)), end_of("host-function", 0);
}

int main(void) {
    CUdeviceptr pitched;
    size_t pitch;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuModuleLoadData(&module, EMU_BUILTIN));
    CUdeviceptr a = block("a", 1 << 20), b = block("b", 1 << 20), x = block("x", 16384), y = block("y", 16384);
    CUdeviceptr arena = block("arena", 32 * 4096), table = block("table", 32), behind = block("behind", 4 * 4096);
    OK(cuMemAllocPitch_v2(&pitched, &pitch, WIDTH, ROWS, 4));
    emu_log(1);
    copies(a, b);
    memsets(a, pitched, pitch);
    launches(x, y);
    structure(arena);
    graphs(x, y);
    changed(x, y, a, b);
    hidden(y, table, behind);
    return 0;
}
