/* Handles (cuMemCreate) mapped in every way that is legal; the first argument says which. What it prints must be the
 * same whatever provides the memory. Beside them lies memory that moves, so that what can move has. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "part.h"

USE(cuMemCreate)
USE(cuMemRelease)
USE(cuMemRetainAllocationHandle)
USE(cuMemExportToShareableHandle)
USE(cuMemImportFromShareableHandle)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemMap)
USE(cuMemUnmap)
USE(cuMemSetAccess)
USE(cuMemGetAccess)
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemsetD8_v2)
USE(cuMemcpyDtoH_v2)
USE(cuCtxSynchronize)

enum { MIB = 1 << 20, SMALL = 2 * MIB, SIZE = 6 * MIB, MANY = 8 };

static const CUmemAccessDesc both_ways = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static CUmemGenericAllocationHandle create_for(size_t bytes, int types) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = (CUmemAllocationHandleType)types,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUmemGenericAllocationHandle create(size_t bytes) {
    return create_for(bytes, 0);
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr p;
    MUST(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    return p;
}

static void map(CUdeviceptr p, CUmemGenericAllocationHandle handle, size_t bytes) {
    MUST(cuMemMap(p, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(p, bytes, &both_ways, 1));
}

static void fill(CUdeviceptr p, int value, size_t bytes) {
    MUST(cuMemsetD8_v2(p, (unsigned char)value, bytes));
}

/* All of it is the value. */
static void tell(const char *what, CUdeviceptr p, int value, size_t bytes) {
    unsigned char *host = malloc(bytes);
    size_t same = 0;
    MUST(cuMemcpyDtoH_v2(host, p, bytes));
    while (same < bytes && host[same] == value)
        same++;
    printf("%s: %d\n", what, same == bytes);
    free(host);
}

/* Memory comes and goes that takes the place of what was not used just before. */
static void stir(void) {
    CUdeviceptr p[MANY];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MANY; i++) {
            if (round == 0)
                MUST(cuMemAlloc_v2(&p[i], SIZE));
            fill(p[i], i, SIZE);
        }
    MUST(cuCtxSynchronize());
    for (int i = 0; i < MANY; i++)
        MUST(cuMemFree_v2(p[i]));
}

static void twice(void) {
    CUmemGenericAllocationHandle handle = create(SIZE), other = create(SIZE);
    CUdeviceptr a = reserve(SIZE), b = reserve(2 * SIZE);
    map(a, handle, SIZE);
    fill(a, 1, SIZE);
    stir();
    MUST(cuMemMap(b, SIZE, 0, handle, 0));
    MUST(cuMemMap(b + SIZE, SIZE, 0, other, 0));
    MUST(cuMemSetAccess(b, 2 * SIZE, &both_ways, 1));
    tell("seen there", b, 1, SIZE);
    fill(b, 2, 2 * SIZE);
    stir();
    tell("seen here", a, 2, SIZE);
    tell("the other", b + SIZE, 2, SIZE);
    MUST(cuMemUnmap(a, SIZE));
    tell("still there", b, 2, SIZE);
    printf("in part %d\n", (int)cuMemUnmap(b, SIZE / 2));
    MUST(cuMemUnmap(b, 2 * SIZE));
    MUST(cuMemAddressFree(a, SIZE));
    MUST(cuMemAddressFree(b, 2 * SIZE));
    MUST(cuMemRelease(handle));
    MUST(cuMemRelease(other));
}

/* A vector that grows: at other addresses each time, with the old ones given back before. */
static void elsewhere(void) {
    CUmemGenericAllocationHandle handle[MANY];
    CUdeviceptr p = 0;
    for (int n = 0; n < MANY; n++) {
        CUdeviceptr larger = reserve((size_t)(n + 1) * SMALL);
        handle[n] = create(SMALL);
        if (n > 0) {
            MUST(cuMemUnmap(p, (size_t)n * SMALL));
            MUST(cuMemAddressFree(p, (size_t)n * SMALL));
        }
        for (int i = 0; i <= n; i++)
            MUST(cuMemMap(larger + (size_t)i * SMALL, SMALL, 0, handle[i], 0));
        MUST(cuMemSetAccess(larger, (size_t)(n + 1) * SMALL, &both_ways, 1));
        p = larger;
        fill(p + (size_t)n * SMALL, n, SMALL);
        for (int i = 0; i <= n; i++)
            tell("grown", p + (size_t)i * SMALL, i, SMALL);
        stir();
    }
    MUST(cuMemUnmap(p, MANY * (size_t)SMALL));
    MUST(cuMemAddressFree(p, MANY * (size_t)SMALL));
    for (int n = 0; n < MANY; n++)
        MUST(cuMemRelease(handle[n]));
}

/* Of handles that lie side by side, and share pages of ours, every other one changes places. */
static void swapped(void) {
    CUmemGenericAllocationHandle handle[MANY];
    CUdeviceptr p = reserve(MANY * (size_t)SMALL);
    for (int i = 0; i < MANY; i++) {
        handle[i] = create(SMALL);
        map(p + (size_t)i * SMALL, handle[i], SMALL);
        fill(p + (size_t)i * SMALL, i, SMALL);
    }
    stir();
    for (int i = 0; i < MANY; i += 2)
        MUST(cuMemUnmap(p + (size_t)i * SMALL, SMALL));
    for (int i = 0; i < MANY; i += 2)
        map(p + (size_t)i * SMALL, handle[(i + 2) % MANY], SMALL);
    for (int i = 0; i < MANY; i++)
        tell("in its place", p + (size_t)i * SMALL, i % 2 ? i : (i + 2) % MANY, SMALL);
    stir();
    MUST(cuMemUnmap(p, MANY * (size_t)SMALL));
    for (int i = 0; i < MANY; i++)
        MUST(cuMemRelease(handle[i]));
    MUST(cuMemAddressFree(p, MANY * (size_t)SMALL));
}

/* Released and unmapped in the middle, in both orders, and mapped anew beside what stays. */
static void holes(void) {
    CUmemGenericAllocationHandle handle[MANY];
    CUdeviceptr p = reserve(2 * MANY * (size_t)SMALL);
    for (int i = 0; i < MANY; i++) {
        handle[i] = create(SMALL);
        map(p + (size_t)i * SMALL, handle[i], SMALL);
        fill(p + (size_t)i * SMALL, i, SMALL);
    }
    for (int round = 0; round < 3; round++) {
        MUST(cuCtxSynchronize());
        for (int i = round; i < MANY; i += 3) {
            if (i % 2)
                MUST(cuMemRelease(handle[i]));
            MUST(cuMemUnmap(p + (size_t)i * SMALL, SMALL));
            if (i % 2 == 0)
                MUST(cuMemRelease(handle[i]));
        }
        stir();
        for (int i = round; i < MANY; i += 3) {
            handle[i] = create(SMALL);
            map(p + (size_t)i * SMALL, handle[i], SMALL);
            fill(p + (size_t)i * SMALL, i + 10 * (round + 1), SMALL);
        }
        for (int i = 0; i < MANY; i++)
            tell("beside holes", p + (size_t)i * SMALL, i % 3 <= round ? i + 10 * (i % 3 + 1) : i, SMALL);
    }
    printf("too early %d\n", (int)cuMemAddressFree(p, 2 * MANY * (size_t)SMALL));
    MUST(cuMemUnmap(p, MANY * (size_t)SMALL));
    printf("in part %d\n", (int)cuMemAddressFree(p, SMALL));
    MUST(cuMemAddressFree(p, 2 * MANY * (size_t)SMALL));
    printf("twice %d\n", (int)cuMemAddressFree(p, 2 * MANY * (size_t)SMALL));
    for (int i = 0; i < MANY; i++)
        MUST(cuMemRelease(handle[i]));
}

/* It was used before, and is after. */
static void exported(void) {
    CUmemGenericAllocationHandle handle = create_for(SIZE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), imported;
    CUdeviceptr a = reserve(SIZE), b = reserve(SIZE);
    int file;
    map(a, handle, SIZE);
    fill(a, 3, SIZE);
    stir();
    MUST(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    map(b, imported, SIZE);
    tell("imported", b, 3, SIZE);
    fill(b, 4, SIZE);
    stir();
    tell("written there", a, 4, SIZE);
    MUST(cuMemUnmap(a, SIZE));
    MUST(cuMemUnmap(b, SIZE));
    MUST(cuMemRelease(handle));
    MUST(cuMemRelease(imported));
    close(file);
    MUST(cuMemAddressFree(a, SIZE));
    MUST(cuMemAddressFree(b, SIZE));
}

/* What is allowed is told, and comes to an end with the mapping. */
static void allowed(void) {
    CUmemGenericAllocationHandle handle = create(SIZE);
    CUdeviceptr p = reserve(SIZE);
    unsigned long long flags = 9;
    CUmemAccessDesc read = both_ways;
    read.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    for (int round = 0; round < 2; round++) {
        MUST(cuMemMap(p, SIZE, 0, handle, 0));
        MUST(cuMemGetAccess(&flags, &both_ways.location, p));
        printf("at first %llu\n", flags);
        printf("beyond %d\n", (int)cuMemSetAccess(p, 2 * SIZE, &both_ways, 1));
        MUST(cuMemSetAccess(p, SIZE, &both_ways, 1));
        MUST(cuMemGetAccess(&flags, &both_ways.location, p + SMALL));
        printf("then %llu\n", flags);
        fill(p, 5, SIZE);
        stir();
        if (round == 1) {
            MUST(cuMemSetAccess(p, SIZE, &read, 1));
            MUST(cuMemGetAccess(&flags, &both_ways.location, p));
            printf("at last %llu\n", flags);
        }
        tell("held", p, 5, SIZE);
        MUST(cuMemUnmap(p, SIZE));
    }
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(p, SIZE));
}

/* Nothing is there any more, though the handle is kept. */
static void unmapped(void) {
    CUmemGenericAllocationHandle handle = create(SIZE);
    CUdeviceptr p = reserve(SIZE);
    char host[16];
    map(p, handle, SIZE);
    fill(p, 6, SIZE);
    stir();
    MUST(cuMemUnmap(p, SIZE));
    printf("read %d\n", (int)cuMemcpyDtoH_v2(host, p, sizeof host));
    printf("given back %d\n", (int)cuMemAddressFree(p, SIZE));
    printf("released %d\n", (int)cuMemRelease(handle));
}

/* All that there are, and each can be mapped. */
static void promised(void) {
    enum { MOST = 512 };
    static CUmemGenericAllocationHandle handle[MOST];
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult status = CUDA_SUCCESS;
    int n = 0;
    while (n < MOST && !(status = cuMemCreate(&handle[n], SMALL, &prop, 0)))
        n++;
    printf("then %d\n", (int)status);
    for (int i = 0; i < n; i++) {
        CUdeviceptr p = reserve(SMALL);
        map(p, handle[i], SMALL);
        fill(p, i, SMALL);
    }
    printf("all are mapped\n");
}

static const struct part parts[] = {{"twice", twice},       {"elsewhere", elsewhere}, {"swapped", swapped},
                                    {"holes", holes},       {"exported", exported},   {"allowed", allowed},
                                    {"unmapped", unmapped}, {"promised", promised},   {NULL, NULL}};

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    use_device();
    return run_part(parts, argc, argv);
}
