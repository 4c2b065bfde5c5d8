/* Arguments by their type: none that a driver would trust and that is not what it says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "emu.h"
#include "every_call.h"

USE(cuCtxSynchronize)
USE(cuEventCreate)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemAllocHost_v2)
USE(cuMemCreate)
USE(cuMemAddressReserve)
USE(cuMemMap)
USE(cuMemSetAccess)
USE(cuMemPoolCreate)
USE(cuMemsetD8_v2)
USE(cuMemcpyDtoH_v2)
USE(cuArrayCreate_v2)
USE(cuStreamSynchronize)
USE(cuGraphCreate)
USE(cuGraphAddEmptyNode)
USE(cuGraphInstantiateWithFlags)

enum { MIB = 1 << 20, BLOCK = 2 * MIB, BLOCKS = 3, MANY = 64 << 10, SCRATCH = 512 * MANY };

static CUcontext context;
static CUstream stream;
static CUevent event;
static CUmodule module;
static CUfunction kernel;
static CUdeviceptr block[BLOCKS], reserved;
static CUmemGenericAllocationHandle mapped, loose;
static CUmemoryPool pool;
static CUarray array;
static CUgraph graph;
static CUgraphNode node;
static CUgraphExec exec;
static void *host;
static char *scratch; /* what pointers point to: zeroes, so many that they are an array of anything, MANY long */
static unsigned drawn;

static void make_mapped(void) {
    static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    static const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cuMemAddressReserve(&block[2], BLOCK, 0, 0, 0));
    MUST(cuMemCreate(&mapped, BLOCK, &prop, 0));
    MUST(cuMemMap(block[2], BLOCK, 0, mapped, 0));
    MUST(cuMemSetAccess(block[2], BLOCK, &access, 1));
}

void objects_make(void) {
    static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    static const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL); /* the linker drops what nothing here uses */
    scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    context = use_device();
    stream = new_stream();
    MUST(cuEventCreate(&event, 0));
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&kernel, module, "nop"));
    MUST(cuMemAlloc_v2(&block[0], BLOCK));
    MUST(cuMemAllocAsync(&block[1], BLOCK, stream));
    make_mapped();
    MUST(cuMemAddressReserve(&reserved, BLOCK, 0, 0, 0));
    MUST(cuMemCreate(&loose, BLOCK, &prop, 0));
    MUST(cuMemAllocHost_v2(&host, BLOCK));
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){64, 64, CU_AD_FORMAT_FLOAT, 1}));
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

void objects_mend(void) {
    MUST(cuCtxSetCurrent(context));
    if (cuMemsetD8_v2(block[0], 1, BLOCK) != CUDA_SUCCESS)
        MUST(cuMemAlloc_v2(&block[0], BLOCK));
    if (cuMemsetD8_v2(block[1], 1, BLOCK) != CUDA_SUCCESS)
        MUST(cuMemAllocAsync(&block[1], BLOCK, stream));
    if (cuMemsetD8_v2(block[2], 1, BLOCK) != CUDA_SUCCESS)
        make_mapped();
}

void objects_use(void) {
    unsigned char back;
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemsetD8_v2(block[i], (unsigned char)(i + 1), BLOCK));
        MUST(cuMemcpyDtoH_v2(&back, block[i] + BLOCK - 1, 1));
        if (back != i + 1)
            printf("block %d holds %d\n", i, back);
    }
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSynchronize());
}

/* --- drawing --- */

static unsigned draw_below(unsigned n) {
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % n;
}

#define CHOOSE(type, ...)                                                                                              \
    do {                                                                                                               \
        __typeof__(type) const from[] = {__VA_ARGS__};                                                                 \
        *(type *)at = from[draw_below(sizeof from / sizeof *from)];                                                    \
    } while (0)

static bool draw_object(const char *type, void *at) {
#define IS(name) (strcmp(type, #name) == 0)
    if (IS(CUdeviceptr))
        CHOOSE(CUdeviceptr, block[0], block[1], block[2], block[0] + 4096, reserved, (uintptr_t)host, 4096, 0);
    else if (IS(CUstream))
        CHOOSE(CUstream, stream, stream, NULL, (CUstream)1, (CUstream)2);
    else if (IS(CUevent))
        CHOOSE(CUevent, event, NULL);
    else if (IS(CUcontext))
        CHOOSE(CUcontext, context, NULL);
    else if (IS(CUmodule))
        CHOOSE(CUmodule, module, NULL);
    else if (IS(CUfunction))
        CHOOSE(CUfunction, kernel, NULL);
    else if (IS(CUmemGenericAllocationHandle))
        CHOOSE(CUmemGenericAllocationHandle, mapped, loose, 0);
    else if (IS(CUmemoryPool))
        CHOOSE(CUmemoryPool, pool, NULL);
    else if (IS(CUarray))
        CHOOSE(CUarray, array, NULL);
    else if (IS(CUgraph))
        CHOOSE(CUgraph, graph, NULL);
    else if (IS(CUgraphNode))
        CHOOSE(CUgraphNode, node, NULL);
    else if (IS(CUgraphExec))
        CHOOSE(CUgraphExec, exec, NULL);
    else
        return false;
    return true;
}

static bool is_one_of(const char *type, const char *const *names) {
    while (*names && strcmp(type, *names) != 0)
        names++;
    return *names;
}

static bool draw_number(const char *type, void *at) {
    static const char *const sizes[] = {"size_t", "cuuint64_t", "unsigned long long", NULL};
    static const char *const ints[] = {"int", "const int", "unsigned int", "cuuint32_t", NULL};
    static const char *const longs[] = {"int64_t", "long long int", NULL};
    if (is_one_of(type, sizes))
        CHOOSE(size_t, 0, 1, 64, 4096, MANY);
    else if (is_one_of(type, ints))
        CHOOSE(int, 0, 1, 2, 4);
    else if (is_one_of(type, longs))
        CHOOSE(int64_t, 0, 1, 2, 4);
    else
        return false;
    return true;
}

static void draw(const char *type, void *at, size_t bytes) {
    memset(at, 0, bytes);
    if (strchr(type, '*'))
        CHOOSE(void *, scratch, scratch, scratch, NULL);
    else if (!draw_object(type, at))
        draw_number(type, at);
}

int call_drawn(const struct called *c, int variant, void *function, unsigned number) {
    drawn = number * 2654435761u + (unsigned)variant;
    madvise(scratch, SCRATCH, MADV_DONTNEED);
    return c->call(function, draw);
}

void *call_scratch(void) {
    return scratch;
}

void *call_find(const struct called *c, int variant) {
    if (!c->name[variant])
        return NULL;
    if (!c->version[variant])
        return c->version[0] ? NULL : dlsym(RTLD_DEFAULT, c->name[variant]);
    void *library = dlopen(c->version[variant], RTLD_LAZY);
    void *found = library ? dlvsym(library, c->name[variant], c->version[variant]) : NULL;
    return found || !library ? found : dlsym(library, c->name[variant]); /* of one without versions */
}
