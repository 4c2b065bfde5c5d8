/* Allocations as programs make them; the first argument says which. Lines that begin with "is" tell how the driver
 * holds the memory, and, after a last argument "failures", how many calls were made to fail; all others are what a
 * program can see, and must be the same whatever holds it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSetCurrent)
USE(cuCtxSynchronize)
USE(cuStreamCreate)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuStreamWaitValue32_v2)
USE(cuMemGetInfo_v2)
USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemPoolCreate)
USE(cuMemPoolDestroy)
USE(cuMemPoolGetAttribute)
USE(cuMemPoolSetAttribute)
USE(cuDeviceGetDefaultMemPool)
USE(cuMemHostAlloc)
USE(cuMemsetD8Async)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemGetAddressRange_v2)
USE(cuPointerGetAttribute)
USE(cuPointerGetAttributes)
USE(cuMemRetainAllocationHandle)
USE(cuIpcGetMemHandle)
USE(cuMemGetHandleForAddressRange)
USE(cuGraphCreate)
USE(cuGraphAddMemAllocNode)
USE(cuGraphAddChildGraphNode)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphExecDestroy)

enum { MIB = 1 << 20 };

static CUcontext context;

static const char *held(CUdeviceptr p) {
    return emu_mapped(p) ? "mapped" : emu_page(p) == EMU_UNKNOWN ? "plain" : "managed";
}

static CUmemoryPool new_pool(size_t most) {
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .maxSize = most};
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t pool_bytes(CUmemoryPool pool, CUmemPool_attribute attribute) {
    uint64_t bytes = 0;
    MUST(cuMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
}

static void kinds(void) {
    CUmemoryPool own, limited = new_pool(64 * MIB), made = new_pool(0);
    CUdeviceptr p;
    size_t pitch;
    MUST(cuDeviceGetDefaultMemPool(&own, 0));
    static const size_t sizes[] = {1, MIB - 1, MIB, 3 * MIB + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        MUST(cuMemAlloc_v2(&p, sizes[i]));
        printf("is %s: plain of %zu\n", held(p), sizes[i]);
        MUST(cuMemAllocAsync(&p, sizes[i], NULL));
        printf("is %s: async of %zu\n", held(p), sizes[i]);
    }
    MUST(cuMemAllocPitch_v2(&p, &pitch, 1000, 2048, 4));
    printf("pitch %zu\nis %s: pitch\n", pitch, held(p));
    MUST(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
    printf("is %s: the program's own\n", held(p));
    MUST(cuMemAllocFromPoolAsync(&p, 2 * MIB, own, NULL));
    printf("is %s: from the device's pool\n", held(p));
    MUST(cuMemAllocFromPoolAsync(&p, 2 * MIB, made, NULL));
    printf("is %s: from a pool\n", held(p));
    MUST(cuMemAllocFromPoolAsync(&p, 2 * MIB, limited, NULL));
    printf("is %s: from a pool with a limit\n", held(p));
}

/* Six of 2 MiB, one more than stays plain; one that is larger; and again one once a plain one has gone. */
static void small(void) {
    CUdeviceptr p, first = 0;
    for (int i = 0; i < 6; i++) {
        MUST(cuMemAlloc_v2(&p, 2 * MIB));
        printf("is %s\n", held(p));
        first = first ? first : p;
    }
    MUST(cuMemFree_v2(first));
    MUST(cuMemAlloc_v2(&p, 2 * MIB + 1));
    printf("is %s\n", held(p));
    MUST(cuMemAlloc_v2(&p, 2 * MIB));
    printf("is %s\n", held(p));
}

/* Until all but nothing of the device is taken: then 8 of 2 MiB. */
static void small_last(void) {
    CUdeviceptr p;
    size_t free_bytes, total;
    MUST(cuMemGetInfo_v2(&free_bytes, &total));
    for (size_t taken = 0; taken < total; taken += 16 * MIB)
        MUST(cuMemAlloc_v2(&p, 16 * MIB));
    for (int i = 0; i < 8; i++)
        MUST(cuMemAlloc_v2(&p, 2 * MIB));
    printf("is %s\n", held(p));
}

static void tell_pointer(CUdeviceptr p, size_t offset, CUmemoryPool own) {
    unsigned managed = 9, type = 9;
    int ordinal = -9;
    CUdeviceptr start = 0, base = 0;
    size_t bytes = 0, range = 0;
    CUcontext its = (CUcontext)1;
    CUmemoryPool pool = (CUmemoryPool)1;
    void *host = (void *)1;
    MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + offset));
    MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + offset));
    MUST(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p + offset));
    MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + offset));
    MUST(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + offset));
    MUST(cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_CONTEXT, p + offset));
    MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + offset));
    MUST(cuMemGetAddressRange_v2(&base, &range, p + offset));
    printf("managed %u type %u device %d start %d bytes %zu context %s pool %s host %d base %d range %zu\n", managed,
           type, ordinal, start == p, bytes,
           its == context ? "own"
           : its          ? "other"
                          : "none",
           pool == own ? "own"
           : pool      ? "other"
                       : "none",
           (int)cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + offset), base == p, range);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&type, &managed, &host, &bytes};
    MUST(cuPointerGetAttributes(4, asked, answers, p + offset));
    CUmemGenericAllocationHandle handle;
    int retained = (int)cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(p + offset));
    printf("at once: type %u managed %u host %p bytes %zu retained %d\n", type, managed, host, bytes, retained);
}

static void attributes(void) {
    CUmemoryPool own;
    CUdeviceptr p, q, r;
    size_t pitch, before, after, total, again;
    MUST(cuDeviceGetDefaultMemPool(&own, 0));
    MUST(cuMemGetInfo_v2(&before, &total));
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAllocAsync(&q, 6 * MIB, NULL));
    MUST(cuMemAllocPitch_v2(&r, &pitch, 512, 4096, 16));
    printf("is %s %s %s\n", held(p), held(q), held(r));
    MUST(cuMemGetInfo_v2(&after, &again));
    printf("total %zu again %d taken %zu\n", total, total == again, before - after);
    tell_pointer(p, 0, own);
    tell_pointer(q, 6 * MIB - 1, own);
    tell_pointer(r, 777, own);
    static const CUmemPool_attribute numbers[] = {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                                  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                  CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            printf("%llu ", (unsigned long long)pool_bytes(own, numbers[i]));
        printf("in the pool\n");
        uint64_t zero = 0;
        if (round == 0) {
            MUST(cuMemFreeAsync(q, NULL));
            MUST(cuCtxSynchronize());
        } else if (round == 1) {
            MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
            MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
        }
    }
    MUST(cuMemFree_v2(p));
    MUST(cuMemFree_v2(r));
    MUST(cuMemGetInfo_v2(&after, &total));
    printf("given back %d\n", before == after);
    printf("freed twice: %d\n", (int)cuMemFree_v2(p));
}

/* What was issued before a free in stream order still has its memory; the program does not wait. */
static void async(void) {
    CUstream stream;
    CUdeviceptr p, q;
    unsigned *gate;
    unsigned char *out;
    size_t before, after, total;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemHostAlloc((void **)&gate, 4096, 0));
    MUST(cuMemHostAlloc((void **)&out, MIB, 0));
    *gate = 0;
    MUST(cuMemGetInfo_v2(&before, &total));
    MUST(cuMemAllocAsync(&p, 4 * MIB, stream));
    printf("is %s\n", held(p));
    MUST(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)gate, 1, 0));
    MUST(cuMemsetD8Async(p, 0x5a, 4 * MIB, stream));
    MUST(cuMemcpyDtoHAsync_v2(out, p + 3 * MIB, MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    MUST(cuMemAllocAsync(&q, 4 * MIB, stream)); /* in the order of the stream it could be the same memory */
    MUST(cuMemFreeAsync(q, stream));
    printf("is %s after the free\n", held(p));
    MUST(cuMemGetInfo_v2(&after, &total));
    *(volatile unsigned *)gate = 1;
    MUST(cuStreamSynchronize(stream));
    for (int i = 0; i < MIB; i++)
        if (out[i] != 0x5a)
            printf("byte %d is %d\n", i, out[i]);
    MUST(cuMemAllocAsync(&q, 4 * MIB, stream));
    MUST(cuMemsetD8Async(q, 0x66, 4 * MIB, stream));
    MUST(cuMemcpyDtoHAsync_v2(out, q, MIB, stream));
    MUST(cuStreamSynchronize(stream));
    printf("reads %x\nis %s, the %s\n", out[MIB - 1], held(q), q == p ? "same" : "other");
    MUST(cuMemFreeAsync(q, stream));
    MUST(cuCtxSynchronize());
    printf("is %s after the context was waited for\n", held(q));
    MUST(cuMemGetInfo_v2(&after, &total));
    printf("given back %d\n", before == after);
}

static void capture(void) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr before, inside, node, after;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&before, 4 * MIB, stream));
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemAlloc_v2(&inside, 4 * MIB));
    MUST(cuMemAllocAsync(&node, 4 * MIB, stream));
    MUST(cuMemsetD8Async(node, 1, 4 * MIB, stream));
    MUST(cuMemFreeAsync(node, stream));
    MUST(cuMemFreeAsync(before, NULL)); /* of another stream: it is freed now */
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuMemAlloc_v2(&after, 4 * MIB));
    printf("is %s inside, %s after\n", held(inside), held(after));
}

static void library(const char *path) {
    CUdeviceptr (*allocate)(size_t) = NULL;
    void *handle = dlopen(path, RTLD_NOW);
    if (handle)
        allocate = (CUdeviceptr (*)(size_t))dlsym(handle, "library_allocate");
    if (!allocate)
        exit(1);
    CUdeviceptr p = allocate(4 * MIB), q;
    MUST(cuMemAlloc_v2(&q, 4 * MIB));
    printf("is %s in the library, %s in the program\n", held(p), held(q));
}

static void ipc(void) {
    CUipcMemHandle handle;
    CUdeviceptr p, q;
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAlloc_v2(&q, 4096));
    for (int i = 0; i < 2; i++)
        printf("is %d\n", (int)cuIpcGetMemHandle(&handle, p));
    MUST(cuIpcGetMemHandle(&handle, q));
}

static void dma(void) {
    CUdeviceptr p, q;
    int file;
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAlloc_v2(&q, 4096));
    for (int i = 0; i < 2; i++)
        printf("is %d\n", (int)cuMemGetHandleForAddressRange(&file, p, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    MUST(cuMemGetHandleForAddressRange(&file, q, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

static size_t available(void) {
    size_t here, total;
    MUST(cuMemGetInfo_v2(&here, &total));
    return here;
}

/* What a graph allocates, also one within another, is taken when it is instantiated. */
static void graphs(void) {
    CUDA_MEM_ALLOC_NODE_PARAMS memory = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 4 * MIB};
    CUgraph inner, outer;
    CUgraphNode node;
    CUgraphExec exec;
    MUST(cuGraphCreate(&inner, 0));
    MUST(cuGraphAddMemAllocNode(&node, inner, NULL, 0, &memory));
    MUST(cuGraphCreate(&outer, 0));
    MUST(cuGraphAddMemAllocNode(&node, outer, NULL, 0, &memory));
    MUST(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    size_t before = available();
    MUST(cuGraphInstantiateWithFlags(&exec, outer, 0));
    size_t made = available();
    MUST(cuGraphExecDestroy(exec));
    printf("is %zu MiB, then %zu\n", (before - made) / MIB, (before - available()) / MIB);
}

/* As much as there is, and more. */
static void fill(int blocks) {
    CUdeviceptr p[64];
    unsigned char *out = malloc(8 * MIB);
    for (int i = 0; i < blocks; i++) {
        CUresult status = cuMemAlloc_v2(&p[i], 8 * MIB);
        if (status) {
            printf("is refused after %d with %d\n", i, (int)status);
            blocks = i;
        } else {
            MUST(cuMemsetD8Async(p[i], (unsigned char)i, 8 * MIB, NULL));
        }
    }
    for (int i = 0; i < blocks; i++) {
        MUST(cuMemcpyDtoH_v2(out, p[i], 8 * MIB));
        for (int b = 0; b < 8 * MIB; b++)
            if (out[b] != i)
                printf("block %d holds %d at %d\n", i, out[b], b);
    }
    printf("is %d blocks\n", blocks);
    for (int i = 0; i < blocks; i++)
        MUST(cuMemFree_v2(p[i]));
    free(out);
}

/* With a limit of 16 MiB. */
static void limit(void) {
    CUdeviceptr p, q, r;
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&p, 9 * MIB));
    printf("is %s, then %d, %d, %d\n", held(p), (int)cuMemAlloc_v2(&q, 6 * MIB + 1),
           (int)cuMemAllocAsync(&q, 7 * MIB, stream), (int)cuMemAllocManaged(&q, 7 * MIB, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemAlloc_v2(&q, 6 * MIB));
    MUST(cuMemAlloc_v2(&r, 4096));
    printf("is %s, and small memory %s\n", held(q), held(r));
    for (int i = 0; i < 5; i++) { /* freed in stream order, it is there for what comes next */
        MUST(cuMemFree_v2(q));
        MUST(cuMemAllocAsync(&q, (6 - (size_t)i % 2) * MIB, stream));
        MUST(cuMemsetD8Async(q, 1, MIB, stream));
        MUST(cuMemFreeAsync(q, stream));
        MUST(cuMemAlloc_v2(&q, 6 * MIB));
    }
    printf("is %s at last\n", held(q));
}

/* A context takes its memory with it, also what waits to be freed. */
static void contexts(void) {
    for (int i = 0; i < 4; i++) {
        CUcontext other;
        CUstream stream;
        CUdeviceptr p, q;
        MUST(cuCtxCreate_v2(&other, 0, 0));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc_v2(&p, 8 * MIB));
        MUST(cuMemAllocAsync(&q, 6 * MIB, stream));
        printf("is %s %s\n", held(p), held(q));
        MUST(cuMemsetD8Async(q, 1, 6 * MIB, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemFreeAsync(q, stream));
        MUST(cuCtxDestroy_v2(other));
    }
    MUST(cuCtxSetCurrent(context));
    fill(2);
}

static void devices(void) {
    for (int d = 0; d < 2; d++) {
        CUcontext other;
        CUdeviceptr p;
        MUST(cuDevicePrimaryCtxRetain(&other, d));
        MUST(cuCtxSetCurrent(other));
        MUST(cuMemAlloc_v2(&p, 4 * MIB));
        int ordinal = -1;
        MUST(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
        printf("device %d\nis %s\n", ordinal, held(p));
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    if (strcmp(what, "kinds") == 0)
        kinds();
    else if (strcmp(what, "small") == 0)
        small();
    else if (strcmp(what, "small last") == 0)
        small_last();
    else if (strcmp(what, "attributes") == 0)
        attributes();
    else if (strcmp(what, "async") == 0)
        async();
    else if (strcmp(what, "capture") == 0)
        capture();
    else if (strcmp(what, "library") == 0 && argc > 2)
        library(argv[2]);
    else if (strcmp(what, "graphs") == 0)
        graphs();
    else if (strcmp(what, "dma") == 0)
        dma();
    else if (strcmp(what, "ipc") == 0)
        ipc();
    else if (strcmp(what, "fill") == 0 && argc > 2)
        fill(atoi(argv[2]));
    else if (strcmp(what, "limit") == 0)
        limit();
    else if (strcmp(what, "contexts") == 0)
        contexts();
    else if (strcmp(what, "devices") == 0)
        devices();
    else
        return 2;
    if (strcmp(argv[argc - 1], "failures") == 0)
        printf("is failed: %llu\n", (unsigned long long)emu_failed());
    return 0;
}
