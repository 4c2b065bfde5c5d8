/* Allocations of every kind: addresses, accounts, what is asked about them, and what must not be touched. */
#include "emu_api.h"

#include <sys/wait.h>

TEST(small_pieces_are_packed_and_aligned) {
    begin();
    CUdeviceptr a = device_memory(1), b = device_memory(513);
    CHECK_EQ(a % 512, 0);
    CHECK_EQ(b % 512, 0);
    CHECK_EQ(b - a, 512);
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuMemFree_v2(a));
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuMemFree_v2(b));
    CHECK_EQ(memory_used(), 0);
}

/* Its pages stay with the process, except those of large pieces. */
TEST(freed_memory_is_empty_when_it_comes_back) {
    begin();
    const size_t sizes[] = {4096, 3 * MiB, 66 * MiB};
    for (int i = 0; i < 3; i++) {
        CUdeviceptr p = device_memory(sizes[i]), managed;
        unsigned char last = 1;
        OK(cuMemsetD8_v2(p, 7, sizes[i]));
        OK(cuMemFree_v2(p));
        CHECK_EQ(device_memory(sizes[i]), p);
        OK(cuMemcpyDtoH_v2(&last, p + sizes[i] - 1, 1));
        CHECK_EQ(last, 0);
        OK(cuMemFree_v2(p));
        OK(cuMemAllocManaged(&managed, 2 * MiB, CU_MEM_ATTACH_GLOBAL));
        CHECK_EQ(emu_page(managed), EMU_NOWHERE);
        OK(cuMemFree_v2(managed));
    }
}

TEST(memory_information_adds_up) {
    begin();
    size_t available, total, whole;
    OK(cuMemGetInfo_v2(&available, &total));
    OK(cuDeviceTotalMem_v2(&whole, 0));
    CHECK_EQ(total, whole);
    CHECK_EQ(available, total);
    CUdeviceptr p = device_memory(3 * MiB);
    CHECK_EQ(memory_used(), 4 * MiB);
    OK(cuMemFree_v2(p));
    CHECK_EQ(memory_used(), 0);
}

TEST(more_than_there_is_fails_and_takes_nothing) {
    setenv("EMU_MEMORY", "64MiB", 1);
    begin();
    CUdeviceptr p, q = 0;
    OK(cuMemAlloc_v2(&p, 40 * MiB));
    CHECK_EQ(cuMemAlloc_v2(&q, 40 * MiB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(cuMemAlloc_v2(&q, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(q, 0);
    CHECK_EQ(memory_used(), 40 * MiB);
    OK(cuMemFree_v2(p));
    OK(cuMemAlloc_v2(&q, 64 * MiB));
}

TEST(bad_frees_are_refused) {
    begin();
    CUdeviceptr p = device_memory(4096);
    OK(cuMemFree_v2(0));
    CHECK_EQ(cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(p));
    CHECK_EQ(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

TEST(the_host_cannot_touch_device_memory) {
    begin();
    CUdeviceptr p = device_memory(4096);
    CHECK_SIGNAL(SIGSEGV, *(volatile char *)(uintptr_t)p = 1);
}

TEST(touching_what_is_not_there_poisons_the_context) {
    CUcontext c = begin();
    CUdeviceptr p = device_memory(4096), q;
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(fill(s, p, 1, 1024));
    OK(cuStreamSynchronize(s));
    OK(fill(s, p, 1, 1025)); /* one too many */
    CHECK_EQ(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemAlloc_v2(&q, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cuMemsetD8Async(p, 1, 1, s), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuDevicePrimaryCtxReset_v2(0));
    CHECK_EQ(cuMemAlloc_v2(&q, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    OK(cuMemAlloc_v2(&q, 4));
}

TEST(freed_memory_is_an_illegal_address) {
    begin();
    kernel("fill"); /* loaded before, so that its variable does not take the place */
    CUdeviceptr p = device_memory(4 * MiB);
    OK(cuMemFree_v2(p));
    CHECK_EQ(cuMemcpyDtoH_v2(&(int){0}, p, 4), CUDA_ERROR_INVALID_VALUE);
    OK(fill(NULL, p, 1, 1));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(a_free_waits_for_the_work_of_the_context) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4 * MiB), out = device_memory(4);
    uint64_t n = MiB;
    OK(fill(s, p, 1, n));
    for (int i = 0; i < 20; i++)
        OK(LAUNCH(s, "reduce_sum", &out, &p, &n));
    OK(cuMemFree_v2(p));
    OK(cuStreamSynchronize(s));
    CHECK(first_float(out) == (float)n);
}

TEST(pitch) {
    begin();
    CUdeviceptr p;
    size_t pitch;
    OK(cuMemAllocPitch_v2(&p, &pitch, 1000, 10, 4));
    CHECK_EQ(pitch, 1024);
    CHECK_EQ(cuMemAllocPitch_v2(&p, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr start;
    size_t bytes;
    OK(cuMemGetAddressRange_v2(&start, &bytes, p + 5000));
    CHECK_EQ(start, p);
    CHECK_EQ(bytes, 10240);
    CHECK_EQ(cuMemGetAddressRange_v2(&start, &bytes, p + 10240), CUDA_ERROR_NOT_FOUND);
}

static unsigned attribute(CUdeviceptr p, CUpointer_attribute id) {
    unsigned value = 0;
    OK(cuPointerGetAttribute(&value, id, p));
    return value;
}

TEST(pointer_attributes) {
    CUcontext c = begin(), found;
    CUdeviceptr plain = device_memory(4096), managed = managed_memory(4096);
    void *pinned = pinned_memory(4096);
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)pinned, mapped;
    CHECK_EQ(attribute(plain, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_DEVICE);
    CHECK_EQ(attribute(host, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_HOST);
    CHECK_EQ(attribute(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED), 1);
    CHECK_EQ(attribute(plain, CU_POINTER_ATTRIBUTE_IS_MANAGED), 0);
    OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, plain + 4095));
    CHECK_EQ(found, c);
    OK(cuMemHostGetDevicePointer_v2(&mapped, pinned, 0));
    CHECK_EQ(mapped, host);
    int local;
    CHECK_EQ(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)(uintptr_t)&local),
             CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute ids[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 9;
    int ordinal = 9;
    OK(cuPointerGetAttributes(2, ids, (void *[]){&type, &ordinal}, (CUdeviceptr)(uintptr_t)&local));
    CHECK_EQ(type, 0);
    CHECK_EQ(ordinal, -2);
}

TEST(pinned_and_registered_host_memory_is_reached_by_kernels) {
    begin();
    float *pinned = pinned_memory(4096), *registered = aligned_alloc(4096, 4096);
    OK(cuMemHostRegister_v2(registered, 4096, 0));
    CHECK_EQ(cuMemHostRegister_v2(registered + 4, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(fill(NULL, (CUdeviceptr)(uintptr_t)pinned, 3, 1024));
    OK(fill(NULL, (CUdeviceptr)(uintptr_t)registered, 4, 1024));
    OK(cuCtxSynchronize());
    CHECK(pinned[1023] == 3 && registered[1023] == 4);
    OK(cuMemHostUnregister(registered));
    CHECK_EQ(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemFreeHost(pinned));
    OK(fill(NULL, (CUdeviceptr)(uintptr_t)registered, 4, 1));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(memory_dies_with_its_context) {
    begin();
    CUcontext own;
    OK(cuCtxCreate_v2(&own, 0, 0));
    device_memory(10 * MiB);
    managed_memory(10 * MiB);
    pinned_memory(MiB);
    CHECK_EQ(memory_used(), 10 * MiB);
    OK(cuCtxDestroy_v2(own));
    CHECK_EQ(memory_used(), 0);
}

TEST(pools) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUmemoryPool pool, own;
    CUdeviceptr p, q;
    uint64_t used;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&p, 3 * MiB, s));
    OK(fill(s, p, 5, 100));
    CHECK(first_float(p) >= 0);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK_EQ(used, 4 * MiB); /* in whole granules */
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK_EQ(used, 0);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    CHECK_EQ(used, 4 * MiB);
    CHECK_EQ(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    OK(cuMemPoolCreate(&own, &props));
    OK(cuMemAllocFromPoolAsync(&q, 100, own, s));
    OK(cuMemPoolDestroy(own));
    OK(fill(s, q, 1, 25));
    OK(cuMemFree_v2(q));
    CHECK_EQ(memory_used(), 2 * MiB); /* the image's variable */
}

TEST(a_pool_waits_for_frees_when_the_device_is_full) {
    setenv("EMU_MEMORY", "64MiB", 1);
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, q;
    OK(cuMemAllocAsync(&p, 40 * MiB, s));
    uint64_t ns = 1000;
    OK(LAUNCH(s, "spin", &ns));
    OK(cuMemFreeAsync(p, s));
    OK(cuMemAllocAsync(&q, 40 * MiB, s));
    CHECK_EQ(cuMemAllocAsync(&p, 40 * MiB, s), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(peers_have_to_be_let_in) {
    setenv("EMU_DEVICES", "2", 1);
    CUcontext first = begin(), second;
    CUdeviceptr p = device_memory(4096);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    OK(cuCtxEnablePeerAccess(first, 0));
    CHECK_EQ(cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoadData(&m, EMU_BUILTIN));
    OK(cuModuleGetFunction(&f, m, "fill"));
    float value = 7;
    uint64_t n = 10;
    void *args[] = {&p, &value, &n};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuCtxSynchronize());
    CHECK(first_float(p) == 7);
    OK(cuCtxDisablePeerAccess(first));
    CUdeviceptr q = device_memory(4096);
    OK(cuMemcpyPeer(q, second, p, first, 40)); /* a copy needs no such right */
    CHECK(first_float(q) == 7);
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(arrays_are_charged) {
    begin();
    CUarray a, level;
    CUDA_ARRAY_DESCRIPTOR d = {64, 32, CU_AD_FORMAT_FLOAT, 4}, back;
    OK(cuArrayCreate_v2(&a, &d));
    OK(cuArrayGetDescriptor_v2(&back, a));
    CHECK_EQ(back.Width, 64);
    CHECK_EQ(memory_used(), 2 * MiB);
    OK(cuArrayDestroy(a));
    CHECK_EQ(memory_used(), 0);
    CUmipmappedArray m;
    CUDA_ARRAY3D_DESCRIPTOR d3 = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    OK(cuMipmappedArrayCreate(&m, &d3, 3));
    CHECK_EQ(memory_used(), 6 * MiB);
    OK(cuMipmappedArrayGetLevel(&level, m, 2));
    OK(cuArrayGetDescriptor_v2(&back, level));
    CHECK_EQ(back.Width, 16);
    OK(cuMipmappedArrayDestroy(m));
    CHECK_EQ(memory_used(), 0);
}

TEST(another_process_opens_a_handle) {
    int there[2], back[2];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0) {
        CUipcMemHandle h;
        CUdeviceptr p, again;
        CHECK_EQ(read(there[0], &h, sizeof h), (ssize_t)sizeof h);
        begin();
        OK(cuIpcOpenMemHandle_v2(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        OK(cuIpcOpenMemHandle_v2(&again, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        CHECK_EQ(again, p);
        OK(cuIpcCloseMemHandle(p));
        CHECK(first_float(p) == 11);
        OK(fill(NULL, p, 12, 10));
        OK(cuCtxSynchronize());
        OK(cuIpcCloseMemHandle(p));
        _exit(write(back[1], "", 1) == 1 ? 0 : 1);
    }
    begin();
    device_memory(100); /* so that the handle's memory does not begin its granule */
    CUdeviceptr p = device_memory(4096);
    CUipcMemHandle h;
    OK(fill(NULL, p, 11, 10));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&h, p));
    CHECK_EQ(write(there[1], &h, sizeof h), (ssize_t)sizeof h);
    char byte;
    int status;
    close(back[1]);
    CHECK_EQ(read(back[0], &byte, 1), 1);
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK(first_float(p) == 12);
    CHECK_EQ(cuIpcGetMemHandle(&h, managed_memory(4096)), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_child_of_a_fork_is_not_initialized) {
    begin();
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p;
        int n;
        CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQ(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQ(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
        OK(cuDriverGetVersion(&n));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    device_memory(4);
}

TEST(nothing_works_before_init) {
    CUdeviceptr p;
    int n;
    CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQ(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    CHECK_EQ(cuMemAlloc_v2(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
}
