/* Allocations as programs make them; the first argument says which. Lines that begin with "is" tell how the driver
 * holds the memory, and, after a last argument "failures", how many calls were made to fail; all others are what a
 * program can see, and must be the same whatever holds it. */
#define _GNU_SOURCE
#include "memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "part.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSynchronize)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuMemGetInfo_v2)
USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemPoolCreate)
USE(cuDeviceGetDefaultMemPool)
USE(cuMemsetD8Async)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyDtoHAsync_v2)
USE(cuPointerGetAttribute)
USE(cuGraphCreate)
USE(cuGraphAddMemAllocNode)
USE(cuGraphAddChildGraphNode)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphExecDestroy)
USE(cuGraphLaunch)
USE(cuDeviceGraphMemTrim)

CUcontext context;

const char *held(CUdeviceptr p) {
    return emu_mapped(p) ? "mapped" : emu_page(p) == EMU_UNKNOWN ? "plain" : "managed";
}

static CUmemoryPool new_pool(size_t most) {
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .maxSize = most};
    CUmemoryPool pool;
    MUST(cuMemPoolCreate(&pool, &props));
    return pool;
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

/* What was issued before a free in stream order still has its memory; the program does not wait. */
static void async(void) {
    CUstream stream = new_stream();
    CUdeviceptr p, q;
    unsigned char *out;
    size_t before, after, total;
    MUST(cuMemHostAlloc((void **)&out, MIB, 0));
    MUST(cuMemGetInfo_v2(&before, &total));
    MUST(cuMemAllocAsync(&p, 4 * MIB, stream));
    printf("is %s\n", held(p));
    volatile unsigned *gate = close_gate(stream);
    MUST(cuMemsetD8Async(p, 0x5a, 4 * MIB, stream));
    MUST(cuMemcpyDtoHAsync_v2(out, p + 3 * MIB, MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    MUST(cuMemAllocAsync(&q, 4 * MIB, stream)); /* in the order of the stream it could be the same memory */
    MUST(cuMemFreeAsync(q, stream));
    printf("is %s after the free\n", held(p));
    MUST(cuMemGetInfo_v2(&after, &total));
    *gate = 1;
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
    CUstream stream = new_stream();
    CUgraph graph;
    CUdeviceptr before, inside, node, after;
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
    CUdeviceptr first = memory.dptr;
    MUST(cuGraphCreate(&outer, 0));
    MUST(cuGraphAddMemAllocNode(&node, outer, NULL, 0, &memory));
    MUST(cuGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    size_t before = available();
    MUST(cuGraphInstantiateWithFlags(&exec, outer, 0));
    size_t made = available();
    MUST(cuGraphLaunch(exec, NULL));
    MUST(cuCtxSynchronize());
    size_t launched = available();
    MUST(cuGraphExecDestroy(exec));
    MUST(cuDeviceGraphMemTrim(0));
    size_t kept = available();
    MUST(cuMemFree_v2(first));
    MUST(cuMemFree_v2(memory.dptr));
    MUST(cuDeviceGraphMemTrim(0));
    printf("is %zu MiB, launched %zu, kept %zu, freed %zu\n", (before - made) / MIB, (before - launched) / MIB,
           (before - kept) / MIB, (before - available()) / MIB);
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
    CUstream stream = new_stream();
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
        CUdeviceptr p, q;
        MUST(cuCtxCreate_v2(&other, 0, 0));
        CUstream stream = new_stream();
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

static const struct part parts[] = {
    {"kinds", kinds},         {"small", small},     {"small last", small_last}, {"attributes", attributes},
    {"async", async},         {"capture", capture}, {"graphs", graphs},         {"dma", dma},
    {"multicast", multicast}, {"ipc", ipc},         {"limit", limit},           {"contexts", contexts},
    {"devices", devices},     {NULL, NULL}};

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    context = use_device();
    int status = 0;
    if (strcmp(what, "library") == 0 && argc > 2)
        library(argv[2]);
    else if (strcmp(what, "fill") == 0 && argc > 2)
        fill(atoi(argv[2]));
    else
        status = run_part(parts, argc, argv);
    if (strcmp(argv[argc - 1], "failures") == 0)
        printf("is failed: %llu\n", (unsigned long long)emu_failed());
    return status;
}
