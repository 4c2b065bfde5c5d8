/* Memory behind handles (cuMemCreate), in the ways in which programs use it; the first argument says which. What it
 * prints must be the same whatever provides the memory. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuMemCreate)
USE(cuMemRelease)
USE(cuMemRetainAllocationHandle)
USE(cuMemGetAllocationPropertiesFromHandle)
USE(cuMemExportToShareableHandle)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemMap)
USE(cuMemUnmap)
USE(cuMemSetAccess)
USE(cuMemGetAccess)
USE(cuMemGetInfo_v2)
USE(cuMemGetAddressRange_v2)
USE(cuPointerGetAttribute)
USE(cuMemsetD8_v2)
USE(cuMemcpyDtoH_v2)

enum { MIB = 1 << 20, SIZE = 4 * MIB, BLOCKS_MAX = 64 };

static const CUmemAccessDesc own_access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUmemGenericAllocationHandle create(size_t bytes) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                      .allocFlags = {.gpuDirectRDMACapable = 1}};
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr p;
    MUST(cuMemAddressReserve(&p, bytes, 2 * MIB, 0, 0));
    return p;
}

static void map(CUdeviceptr p, CUmemGenericAllocationHandle handle, size_t bytes) {
    MUST(cuMemMap(p, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(p, bytes, &own_access, 1));
}

/* The first and the last byte. */
static void tell(const char *what, CUdeviceptr p, size_t bytes) {
    unsigned char first, last;
    MUST(cuMemcpyDtoH_v2(&first, p, 1));
    MUST(cuMemcpyDtoH_v2(&last, p + bytes - 1, 1));
    printf("%s: %d %d\n", what, first, last);
}

static void fill(CUdeviceptr p, int value, size_t bytes) {
    MUST(cuMemsetD8_v2(p, (unsigned char)value, bytes));
}

/* A handle, then addresses of its size. */
static CUdeviceptr allocate(size_t bytes) {
    CUmemGenericAllocationHandle handle = create(bytes);
    CUdeviceptr p = reserve(bytes);
    map(p, handle, bytes);
    return p;
}

/* Without having kept the handle. */
static void give_back(CUdeviceptr p, size_t bytes) {
    CUmemGenericAllocationHandle handle;
    MUST(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
    MUST(cuMemUnmap(p, bytes));
    MUST(cuMemRelease(handle));
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(p, bytes));
}

static void blocks(int n) {
    CUdeviceptr p[BLOCKS_MAX];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            p[i] = allocate(SIZE);
            fill(p[i], i + round, SIZE);
        }
        for (int i = 0; i < n; i++)
            tell("block", p[i], SIZE);
        for (int i = 0; i < n; i++)
            give_back(p[i], SIZE);
    }
}

static void answers(void) {
    CUmemGenericAllocationHandle handle = create(SIZE), again = 0;
    CUdeviceptr p = reserve(SIZE), base = 0, start = 0;
    CUmemAllocationProp prop;
    CUcontext context = (CUcontext)1;
    unsigned managed = 9;
    size_t range = 0, bytes = 0, mapping = 0;
    unsigned long long flags = 9;
    int out;
    map(p, handle, SIZE);
    MUST(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    printf("type %d on %d:%d, rdma %d\n", (int)prop.type, (int)prop.location.type, prop.location.id,
           prop.allocFlags.gpuDirectRDMACapable);
    printf("export %d\n", (int)cuMemExportToShareableHandle(&out, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemGetAccess(&flags, &own_access.location, p + MIB));
    printf("access %llu\n", flags);
    MUST(cuMemGetAddressRange_v2(&base, &range, p + MIB));
    MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + MIB));
    MUST(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p + MIB));
    MUST(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + MIB));
    MUST(cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p + MIB));
    MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p + MIB));
    printf("range %zu from %d, managed %u, of a context %d, of %zu, mapped %zu from %d\n", range, base == p, managed,
           context != NULL, bytes, mapping, start == p);
    MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + MIB)));
    printf("the same handle %d\n", again == handle);
    printf("too early %d\n", (int)cuMemAddressFree(p, SIZE));
    printf("a part %d\n", (int)cuMemUnmap(p, SIZE / 2));
    printf("twice %d\n", (int)cuMemMap(p, SIZE, 0, handle, 0));
    MUST(cuMemRelease(again));
    MUST(cuMemRelease(handle));
    fill(p, 5, SIZE);
    tell("released", p, SIZE);
    MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
    MUST(cuMemUnmap(p, SIZE));
    map(p, again, SIZE);
    tell("mapped again", p, SIZE);
    MUST(cuMemUnmap(p, SIZE));
    MUST(cuMemRelease(again));
    handle = create(SIZE);
    map(p, handle, SIZE);
    fill(p, 6, SIZE);
    tell("another handle there", p, SIZE);
    MUST(cuMemUnmap(p, SIZE));
    MUST(cuMemAddressFree(p, SIZE));
    MUST(cuMemRelease(handle));
}

/* Memory that is in more than one place, or of which the addresses were there first. */
static void ways(void) {
    CUmemGenericAllocationHandle ring = create(SIZE);
    CUdeviceptr p = reserve(2 * SIZE);
    map(p, ring, SIZE);
    map(p + SIZE, ring, SIZE);
    fill(p, 7, SIZE);
    tell("ring", p + SIZE, SIZE);
    CUmemGenericAllocationHandle one = create(SIZE), other = create(SIZE);
    CUdeviceptr q = reserve(4 * SIZE);
    map(q, one, SIZE);
    map(q + SIZE, other, SIZE);
    fill(q, 8, 2 * SIZE);
    tell("two in one", q, 2 * SIZE);
    MUST(cuMemUnmap(q, 2 * SIZE));
    map(q + 2 * SIZE, one, SIZE);
    tell("moved", q + 2 * SIZE, SIZE);
    MUST(cuMemUnmap(q + 2 * SIZE, SIZE));
    MUST(cuMemUnmap(p, 2 * SIZE));
    MUST(cuMemRelease(ring));
    MUST(cuMemRelease(one));
    MUST(cuMemRelease(other));
    MUST(cuMemAddressFree(q, 4 * SIZE));
    MUST(cuMemAddressFree(p, 2 * SIZE));
    ring = create(SIZE); /* never mapped */
    MUST(cuMemRelease(ring));
    p = allocate(SIZE);
    fill(p, 9, SIZE);
    tell("at last", p, SIZE);
    give_back(p, SIZE);
}

/* Addresses for all, then one handle after the other until one is refused, twice. */
static void segments(int n) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle[BLOCKS_MAX];
    CUdeviceptr p = reserve((size_t)n * SIZE);
    CUresult status = CUDA_SUCCESS;
    int made = 0;
    for (; made < n && !(status = cuMemCreate(&handle[made], SIZE, &prop, 0)); made++) {
        map(p + (CUdeviceptr)made * SIZE, handle[made], SIZE);
        fill(p + (CUdeviceptr)made * SIZE, made, SIZE);
    }
    printf("refused after %d with %d\n", made, (int)status);
    if (made < n)
        printf("again %d\n", (int)cuMemCreate(&handle[made], SIZE, &prop, 0));
    for (int i = 0; i < made; i++) {
        tell("segment", p + (CUdeviceptr)i * SIZE, SIZE);
        MUST(cuMemUnmap(p + (CUdeviceptr)i * SIZE, SIZE));
        MUST(cuMemRelease(handle[i]));
    }
    MUST(cuMemAddressFree(p, (size_t)n * SIZE));
}

/* A library's, of handle types, until one is refused; then the last is exported. */
static void library(const char *path, int types, int n) {
    CUresult (*make)(size_t, int, CUmemGenericAllocationHandle *, CUdeviceptr *) = NULL;
    CUmemGenericAllocationHandle handle[BLOCKS_MAX];
    CUdeviceptr p;
    CUresult status = CUDA_SUCCESS;
    int made = 0, file = -1;
    void *loaded = dlopen(path, RTLD_NOW);
    if (loaded)
        make = (CUresult (*)(size_t, int, CUmemGenericAllocationHandle *, CUdeviceptr *))dlsym(loaded, "library_map");
    if (!make)
        exit(1);
    while (made < n && !(status = make(SIZE, types, &handle[made], &p)))
        made++;
    printf("made %d, then %d\n", made, (int)status);
    printf("export %d\n",
           (int)cuMemExportToShareableHandle(&file, handle[made - 1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    exit(0);
}

/* Addresses whose context goes before them. */
static void contexts(void) {
    CUcontext first, own;
    CUdeviceptr p;
    MUST(cuDevicePrimaryCtxRetain(&first, 0));
    for (int i = 0; i < 3; i++) {
        MUST(cuCtxCreate_v2(&own, 0, 0));
        CUmemGenericAllocationHandle handle = create(SIZE);
        p = reserve(SIZE);
        map(p, handle, SIZE);
        fill(p, i, SIZE);
        tell("in its context", p, SIZE);
        MUST(cuMemRelease(handle));
        MUST(cuCtxDestroy_v2(own));
        MUST(cuCtxSetCurrent(first));
        MUST(cuMemUnmap(p, SIZE));
        MUST(cuMemAddressFree(p, SIZE));
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    size_t before, after, total;
    use_device();
    MUST(cuMemGetInfo_v2(&before, &total));
    if (strcmp(what, "blocks") == 0 && argc > 2)
        blocks(atoi(argv[2]));
    else if (strcmp(what, "answers") == 0)
        answers();
    else if (strcmp(what, "ways") == 0)
        ways();
    else if (strcmp(what, "segments") == 0 && argc > 2)
        segments(atoi(argv[2]));
    else if (strcmp(what, "library") == 0 && argc > 4)
        library(argv[2], atoi(argv[3]), atoi(argv[4]));
    else if (strcmp(what, "contexts") == 0)
        contexts();
    else
        return 2;
    MUST(cuMemGetInfo_v2(&after, &total));
    for (int tries = 0; tries < 200 && after != before; tries++) { /* who takes away what is mapped may come late */
        usleep(10000);
        MUST(cuMemGetInfo_v2(&after, &total));
    }
    printf("all of it back: %d\n", before == after);
    return 0;
}
