/* Copies and memsets of every shape. */
#include "emu_api.h"

enum { WIDTH = 48, HEIGHT = 6, DEPTH = 3 };

/* Byte i of a pattern that does not repeat soon. */
static unsigned char pattern(size_t i) {
    return (unsigned char)(i * 7 + i / 251);
}

static unsigned char *patterned(size_t bytes) {
    unsigned char *p = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        p[i] = pattern(i);
    return p;
}

static uint64_t of(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

TEST(lines_in_all_directions) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    size_t bytes = MiB + 3;
    unsigned char *from = patterned(bytes), *to = calloc(bytes, 1), *pinned = pinned_memory(bytes);
    CUdeviceptr a = device_memory(bytes), b = device_memory(bytes);
    OK(cuMemcpyHtoDAsync_v2(a, from, bytes, s));
    OK(cuMemcpyDtoDAsync_v2(b, a, bytes, s));
    OK(cuMemcpyDtoHAsync_v2(pinned, b, bytes, s));
    OK(cuStreamSynchronize(s));
    CHECK(memcmp(from, pinned, bytes) == 0);
    OK(cuMemcpy(of(to), b, bytes)); /* all kinds of addresses */
    CHECK(memcmp(from, to, bytes) == 0);
    memset(to, 0, bytes);
    OK(cuMemcpyAsync(of(to), of(pinned), bytes, s));
    OK(cuStreamSynchronize(s));
    CHECK(memcmp(from, to, bytes) == 0);
    OK(cuMemcpyHtoD_v2(a, from, 0));
    CHECK_EQ(cuMemcpyHtoD_v2(a, from, bytes + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyHtoD_v2(0x1000, from, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemcpyDtoD_v2(a, of(from), 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(pageable_memory_is_read_before_the_call_returns) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4096);
    unsigned char bytes[4096];
    _Atomic uint32_t *gate = close_gate(s);
    memset(bytes, 3, sizeof bytes);
    OK(cuMemcpyHtoDAsync_v2(p, bytes, sizeof bytes, s));
    memset(bytes, 4, sizeof bytes);
    *gate = 1;
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH_v2(bytes, p, sizeof bytes));
    CHECK_EQ(bytes[4095], 3);
}

TEST(pinned_memory_is_read_when_the_copy_runs) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4096);
    unsigned char *pinned = pinned_memory(4096), back;
    _Atomic uint32_t *gate = close_gate(s);
    memset(pinned, 3, 4096);
    OK(cuMemcpyHtoDAsync_v2(p, pinned, 4096, s));
    memset(pinned, 4, 4096);
    *gate = 1;
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH_v2(&back, p, 1));
    CHECK_EQ(back, 4);
}

TEST(rectangles) {
    begin();
    CUdeviceptr p;
    size_t pitch;
    unsigned char *from = patterned(100 * HEIGHT), to[WIDTH * HEIGHT];
    OK(cuMemAllocPitch_v2(&p, &pitch, WIDTH, HEIGHT, 4));
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 100,
                        .srcXInBytes = 5,
                        .srcY = 1,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = WIDTH,
                        .Height = HEIGHT - 1};
    OK(cuMemcpy2D_v2(&in));
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = p,
                         .srcPitch = pitch,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .WidthInBytes = WIDTH,
                         .Height = HEIGHT - 1};
    OK(cuMemcpy2DUnaligned_v2(&out));
    for (size_t y = 0; y < HEIGHT - 1; y++)
        for (size_t x = 0; x < WIDTH; x++)
            CHECK_EQ(to[y * WIDTH + x], pattern((y + 1) * 100 + x + 5));
    in.dstPitch = WIDTH - 1;
    CHECK_EQ(cuMemcpy2D_v2(&in), CUDA_ERROR_INVALID_VALUE);
    in.dstPitch = pitch;
    in.Height = HEIGHT + 1;
    in.dstY = 1;
    CHECK_EQ(cuMemcpy2D_v2(&in), CUDA_ERROR_INVALID_VALUE);
}

TEST(boxes_through_an_array) {
    begin();
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = WIDTH / 4, .Height = HEIGHT, .Depth = DEPTH, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    unsigned char *from = patterned(WIDTH * HEIGHT * DEPTH), to[16 * 2 * 2];
    OK(cuArray3DCreate_v2(&array, &d));
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = WIDTH,
                        .srcHeight = HEIGHT,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = array,
                        .WidthInBytes = WIDTH,
                        .Height = HEIGHT,
                        .Depth = DEPTH};
    OK(cuMemcpy3D_v2(&in));
    CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = array,
                         .srcXInBytes = 8,
                         .srcY = 3,
                         .srcZ = 1,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .dstPitch = 16,
                         .dstHeight = 2,
                         .WidthInBytes = 16,
                         .Height = 2,
                         .Depth = 2};
    OK(cuMemcpy3DAsync_v2(&out, new_stream(0)));
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 2; y++)
            for (size_t x = 0; x < 16; x++)
                CHECK_EQ(to[(z * 2 + y) * 16 + x], pattern(((z + 1) * HEIGHT + y + 3) * WIDTH + x + 8));
    out.Depth = 3;
    CHECK_EQ(cuMemcpy3D_v2(&out), CUDA_ERROR_INVALID_VALUE);
}

TEST(lines_of_arrays) {
    begin();
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    unsigned char *from = patterned(256), to[10];
    CUdeviceptr p = device_memory(256);
    OK(cuArrayCreate_v2(&array, &d));
    OK(cuMemcpyHtoA_v2(array, 0, from, 256));
    OK(cuMemcpyAtoD_v2(p, array, 20, 10));
    OK(cuMemcpyDtoH_v2(to, p, 10));
    CHECK(memcmp(to, from + 20, 10) == 0);
    OK(cuMemcpyAtoH_v2(to, array, 30, 10));
    CHECK(memcmp(to, from + 30, 10) == 0);
    CHECK_EQ(cuMemcpyAtoH_v2(to, array, 250, 10), CUDA_ERROR_INVALID_VALUE);
}

TEST(batches) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = device_memory(4096), to[2] = {a, a + 1024};
    unsigned char *pinned = pinned_memory(4096), back[4096];
    for (size_t i = 0; i < 4096; i++)
        pinned[i] = pattern(i);
    CUdeviceptr from[2] = {of(pinned), of(pinned) + 2048};
    size_t bytes[2] = {1024, 512}, start = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &how, &start, 1, s));
    OK(cuMemcpyDtoHAsync_v2(back, a, 1536, s));
    CHECK(memcmp(back, pinned, 1024) == 0 && memcmp(back + 1024, pinned + 2048, 512) == 0);
    CHECK_EQ(cuMemcpyBatchAsync_v2(to, from, bytes, 2, &how, &start, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D_BATCH_OP op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {of(pinned), 64, 8, {0}}},
                                 .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {a, 16, 4, {0}}},
                                 .extent = {16, 4, 2},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, s));
    OK(cuMemcpyDtoHAsync_v2(back, a, 128, s));
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 4; y++)
            CHECK(memcmp(back + (z * 4 + y) * 16, pinned + (z * 8 + y) * 64, 16) == 0);
}

TEST(memsets) {
    begin();
    CUdeviceptr p = device_memory(4096);
    unsigned char b[4096];
    OK(cuMemsetD8_v2(p, 0, 4096));
    OK(cuMemsetD8_v2(p + 1, 0xab, 3));
    OK(cuMemsetD16_v2(p + 8, 0x1234, 2));
    OK(cuMemsetD32_v2(p + 16, 0xdeadbeef, 1));
    OK(cuMemsetD2D8_v2(p + 64, 16, 7, 3, 4));
    OK(cuMemsetD2D16_v2(p + 128, 16, 0x0102, 2, 2));
    OK(cuMemsetD2D32_v2(p + 192, 16, 0x01020304, 1, 2));
    OK(cuMemsetD32Async(p + 4092, 9, 1, NULL));
    OK(cuMemcpyDtoH_v2(b, p, 4096));
    CHECK(b[0] == 0 && b[1] == 0xab && b[3] == 0xab && b[4] == 0);
    CHECK(b[8] == 0x34 && b[9] == 0x12 && b[10] == 0x34 && b[12] == 0);
    CHECK(b[16] == 0xef && b[19] == 0xde && b[20] == 0);
    for (size_t i = 64; i < 128; i++)
        CHECK_EQ(b[i], (i - 64) % 16 < 3 ? 7 : 0);
    CHECK(b[128] == 2 && b[131] == 1 && b[132] == 0 && b[144] == 2);
    CHECK(b[192] == 4 && b[195] == 1 && b[196] == 0 && b[208] == 4);
    CHECK_EQ(b[4092], 9);
    CHECK_EQ(cuMemsetD32_v2(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD8_v2(p + 1, 1, 4096), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemsetD2D8_v2(p, 2, 1, 3, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD2D8_v2(p, 2, 1, 3, 0));
}

TEST(traffic_is_counted_each_way) {
    begin();
    CUdeviceptr p = device_memory(MiB);
    void *pinned = pinned_memory(MiB);
    static char pageable[MiB];
    struct emu_traffic t;
    OK(cuMemcpyHtoD_v2(p, pinned, MiB));
    OK(cuMemcpyDtoH_v2(pageable, p, MiB));
    OK(cuMemcpyDtoD_v2(p, p + MiB / 2, MiB / 2));
    OK(cuCtxSynchronize());
    emu_traffic(&t);
    CHECK_EQ(t.copied_in, MiB);
    CHECK_EQ(t.copied_out, MiB);
}
