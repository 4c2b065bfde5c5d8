/* One operation of each kind after another, each waited for; prints what the emulated device says it truly touched.
 *
 * Output: "step NAME KERNELS", then "true MODE ADDRESS BYTES" for each touch; before them "block NAME ADDRESS BYTES".
 */
#include "touches.h"

USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyDtoD_v2)
USE(cuMemcpy)
USE(cuMemcpyAsync)
USE(cuMemcpyHtoDAsync_v2)
USE(cuMemcpyPeer)
USE(cuMemcpy2D_v2)
USE(cuMemcpy2DAsync_v2)
USE(cuMemcpy3D_v2)
USE(cuMemsetD8_v2)
USE(cuMemsetD16_v2)
USE(cuMemsetD32Async)
USE(cuMemsetD2D8_v2)
USE(cuMemsetD2D32Async)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuModuleGetGlobal_v2)
USE(cuLaunchKernel)
USE(cuLaunchKernelEx)
USE(cuLaunchCooperativeKernel)
USE(cuLibraryLoadData)
USE(cuLibraryGetKernel)
USE(cuMemcpyBatchAsync_v2)
USE(cuMemBatchDecompressAsync)
USE(cuStreamWriteValue32_v2)
USE(cuStreamWaitValue32_v2)
USE(cuStreamWaitValue64)
USE(cuLaunchHostFunc)
USE(cuMemcpy3DPeer)
USE(cuMemcpy3DPeerAsync)
USE(cuMemcpy3DBatchAsync)
USE(cuMemcpy3DBatchAsync_v2)
USE(cuMemcpyBatchAsync)
USE(cuLaunchCooperativeKernelMultiDevice)
USE(cuStreamSynchronize)
USE(cuArray3DCreate_v2)
USE(cuArrayDestroy)

CUcontext context, far_context;
CUstream stream, far_stream;
static CUmodule module;

static CUdeviceptr block(const char *name, size_t bytes) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, bytes));
    printf("block %s %llu %zu\n", name, (unsigned long long)p, bytes);
    return p;
}

CUfunction kernel(const char *name) {
    CUfunction f;
    MUST(cuModuleGetFunction(&f, module, name));
    return f;
}

static void copies(CUdeviceptr a, CUdeviceptr b) {
    static char host[1 << 20];
    MUST(cuMemcpyHtoD_v2(a + 64, host, 1000)), end_of("HtoD", 0);
    MUST(cuMemcpyDtoH_v2(host, a, 500)), end_of("DtoH", 0);
    MUST(cuMemcpyDtoD_v2(b + 8, a + 4, 3000)), end_of("DtoD", 0);
    MUST(cuMemcpy(b, (CUdeviceptr)(uintptr_t)host, 700)), end_of("unified", 0);
    MUST(cuMemcpyAsync(a, b, 4000, stream)), end_of("unified-async", 0);
    MUST(cuMemcpyHtoDAsync_v2(a, host, 128, stream)), end_of("HtoD-async", 0);
    MUST(cuMemcpyPeer(b, context, a, context, 2000)), end_of("peer", 0);
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
    MUST(cuMemcpy2D_v2(&flat)), end_of("2D", 0);
    flat.dstMemoryType = CU_MEMORYTYPE_HOST;
    flat.dstHost = host;
    MUST(cuMemcpy2DAsync_v2(&flat, stream)), end_of("2D-to-host", 0);
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
    MUST(cuMemcpy3D_v2(&box)), end_of("3D", 0);
    CUdeviceptr to[2] = {b, b + 4096}, from[2] = {a, a + 8192};
    size_t bytes[2] = {100, 200}, index = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    MUST(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &how, &index, 1, stream)), end_of("batch", 0);
    CUmemDecompressParams p = {.src = (void *)(uintptr_t)(a + 64),
                               .srcNumBytes = 200,
                               .dst = (void *)(uintptr_t)(b + 32),
                               .dstNumBytes = 200,
                               .dstActBytes = (void *)(uintptr_t)a,
                               .algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4};
    MUST(cuMemBatchDecompressAsync(&p, 1, 0, &index, stream)), end_of("decompressed", 0);
}

static CUmemcpy3DOperand operand(CUdeviceptr p, size_t row, size_t height) {
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                               .op.ptr = {.ptr = p, .rowLength = row, .layerHeight = height}};
}

/* Between devices, and lists of them; each side of a list in a block of its own. */
static void far_copies(CUdeviceptr a, CUdeviceptr b, CUdeviceptr x, CUdeviceptr y, CUdeviceptr far) {
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = a,
                              .srcContext = context,
                              .srcPitch = 128,
                              .srcHeight = 10,
                              .srcY = 3,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = far,
                              .dstContext = far_context,
                              .dstPitch = 160,
                              .dstHeight = 8,
                              .dstZ = 1,
                              .WidthInBytes = WIDTH,
                              .Height = ROWS,
                              .Depth = 2};
    MUST(cuMemcpy3DPeer(&box)), end_of("3D-peer", 0);
    box.Depth = 1;
    MUST(cuMemcpy3DPeerAsync(&box, stream)), end_of("3D-peer-async", 0);
    CUDA_MEMCPY3D_BATCH_OP list[2] = {
        {.src = operand(a + 512, 128, 8), .dst = operand(b + 256, 112, 9), .extent = {WIDTH, ROWS, 2}},
        {.src = operand(x, 0, 0), .dst = operand(y + 64, 0, 0), .extent = {WIDTH, ROWS, 3}}};
    for (int i = 0; i < 2; i++)
        list[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t failed;
    MUST(cuMemcpy3DBatchAsync_v2(2, list, 0, stream)), end_of("3D-batch", 0);
    MUST(cuMemcpy3DBatchAsync(1, list, &failed, 0, stream)), end_of("3D-batch-first", 0);
    CUdeviceptr to[2] = {b + 16, y}, from[2] = {a, x + 128};
    size_t bytes[2] = {300, 40}, index = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    MUST(cuMemcpyBatchAsync(to, from, bytes, 2, &how, &index, 1, &failed, stream)), end_of("batch-first", 0);
}

/* Where an array takes part, extents and rows count its elements. */
static void array_copies(CUdeviceptr a, CUdeviceptr b) {
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR as = {
        .Width = WIDTH, .Height = ROWS, .Depth = 3, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    MUST(cuArray3DCreate_v2(&array, &as));
    CUmemcpy3DOperand whole = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {.array = array}};
    CUmemcpy3DOperand part = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {.array = array, .offset = {5, 1, 1}}};
    CUDA_MEMCPY3D_BATCH_OP fill = {.src = operand(a + 64, 0, 0), .dst = whole, .extent = {WIDTH, ROWS, 3}};
    CUDA_MEMCPY3D_BATCH_OP take = {.src = part, .dst = operand(b + 32, 20, 4), .extent = {16, 3, 2}};
    fill.srcAccessOrder = take.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    MUST(cuMemcpy3DBatchAsync_v2(1, &fill, 0, stream)), end_of("array-filled", 0);
    MUST(cuMemcpy3DBatchAsync_v2(1, &take, 0, stream)), end_of("array-taken", 0);
    take.dst = operand(b + 32, 0, 0);
    MUST(cuMemcpy3DBatchAsync_v2(1, &take, 0, stream)), end_of("array-packed", 0);
    MUST(cuArrayDestroy(array));
}

static void memsets(CUdeviceptr a, CUdeviceptr pitched, size_t pitch) {
    MUST(cuMemsetD8_v2(a + 1, 1, 33)), end_of("set8", 0);
    MUST(cuMemsetD16_v2(a + 2, 1, 33)), end_of("set16", 0);
    MUST(cuMemsetD32Async(a + 4, 1, 33, stream)), end_of("set32", 0);
    MUST(cuMemsetD2D8_v2(pitched + 3, pitch, 1, WIDTH, ROWS)), end_of("set2D8", 0);
    MUST(cuMemsetD2D32Async(pitched, pitch, 1, WIDTH / 4, ROWS, stream)), end_of("set2D32", 0);
    MUST(cuStreamWriteValue32_v2(stream, a, 7, 0)), end_of("write-value", 0);
    MUST(cuStreamWaitValue32_v2(stream, a, 7, 0)), end_of("wait-value", 0);
    MUST(cuStreamWaitValue64(stream, a, 7, 0)), end_of("wait-value-64", 0);
}

static void launches(CUdeviceptr x, CUdeviceptr y) {
    struct axpy p = {2, x, y, N};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n};
    size_t bytes = sizeof p;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, .hStream = stream};
    CUfunction axpy = kernel("axpy");
    CUlibrary library;
    CUkernel same;
    MUST(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch", 1);
    MUST(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra)), end_of("launch-extra", 1);
    MUST(cuLaunchKernelEx(&config, axpy, parameters, NULL)), end_of("launch-ex", 1);
    MUST(cuLaunchCooperativeKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters)), end_of("launch-cooperative", 1);
    MUST(cuLibraryLoadData(&library, EMU_BUILTIN, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&same, library, "axpy"));
    MUST(cuLaunchKernel((CUfunction)same, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-library", 1);
}

/* One kernel on each device. */
static void launch_everywhere(CUdeviceptr x, CUdeviceptr y, CUdeviceptr far) {
    struct axpy p = {2, x, y, N}, q = {2, far, far + 8192, N};
    CUmodule far_module;
    CUDA_LAUNCH_PARAMS each[2] = {
        {kernel("axpy"), 1, 1, 1, 1, 1, 1, .hStream = stream, .kernelParams = (void *[]){&p.a, &p.x, &p.y, &p.n}},
        {NULL, 1, 1, 1, 1, 1, 1, .hStream = far_stream, .kernelParams = (void *[]){&q.a, &q.x, &q.y, &q.n}}};
    MUST(cuCtxSetCurrent(far_context));
    MUST(cuModuleLoadData(&far_module, EMU_BUILTIN));
    MUST(cuModuleGetFunction(&each[1].function, far_module, "axpy"));
    MUST(cuCtxSetCurrent(context));
    MUST(cuLaunchCooperativeKernelMultiDevice(each, 2, 0));
    MUST(cuStreamSynchronize(far_stream)), end_of("launch-everywhere", 2);
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
    MUST(cuLaunchKernel(kernel("adam"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-structure", 1);
}

/* Two arrays in a place, then one, as an allocator has it that nobody hears of. */
static void reused(CUdeviceptr place, CUdeviceptr y) {
    struct axpy p = {2, place + sizeof(float) * N, y, N};
    void *parameters[] = {&p.a, &p.x, &p.y, &p.n};
    CUfunction axpy = kernel("axpy");
    MUST(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-second", 1);
    p.x = place, p.n = 2 * N;
    MUST(cuMemsetD32Async(place, 0, 2 * N, stream)), end_of("set-both", 0);
    MUST(cuLaunchKernel(axpy, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch-both", 1);
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
    MUST(cuMemcpyHtoD_v2(table, rows, sizeof rows)), end_of("table-copied", 0);
    void *gather[] = {&y, &table, &n, &width};
    MUST(cuLaunchKernel(kernel("gather"), 1, 1, 1, 1, 1, 1, 0, stream, gather, NULL)), end_of("hidden-table", 1);
    MUST(cuModuleGetGlobal_v2(&variable, &bytes, module, "hidden"));
    MUST(cuMemcpyHtoD_v2(variable, &behind, sizeof behind)), end_of("variable-copied", 0);
    void *write[] = {&value, &many};
    MUST(cuLaunchKernel(kernel("write_hidden"), 1, 1, 1, 1, 1, 1, 0, stream, write, NULL)),
        end_of("hidden-variable", 1);
    MUST(cuLaunchHostFunc(stream, nothing, NULL)), end_of("host-function", 0);
}

int main(void) {
    CUdeviceptr pitched;
    size_t pitch;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&far_context, 1));
    MUST(cuCtxSetCurrent(far_context));
    far_stream = new_stream();
    CUdeviceptr far = block("far", 16384);
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    stream = new_stream();
    MUST(cuModuleLoadData(&module, EMU_BUILTIN));
    CUdeviceptr a = block("a", 1 << 20), b = block("b", 1 << 20), x = block("x", 16384), y = block("y", 16384);
    CUdeviceptr place = block("place", 2 * sizeof(float) * N);
    CUdeviceptr arena = block("arena", 32 * 4096), table = block("table", 32), behind = block("behind", 4 * 4096);
    MUST(cuMemAllocPitch_v2(&pitched, &pitch, WIDTH, ROWS, 4));
    printf("block pitched %llu %zu\n", (unsigned long long)pitched, pitch * ROWS);
    emu_log(1);
    copies(a, b);
    far_copies(a, b, x, y, far);
    array_copies(a, b);
    memsets(a, pitched, pitch);
    launches(x, y);
    launch_everywhere(x, y, far);
    structure(arena);
    reused(place, y);
    graphs(x, y);
    any_nodes(x, y);
    changed(x, y, a, b);
    words(a, b);
    hidden(y, table, behind);
    return 0;
}
