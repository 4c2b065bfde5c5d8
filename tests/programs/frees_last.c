/* frees_last: a library's destructor works with memory of every kind, and frees it, after ours has run.
 *
 * Built twice: with PLUGIN defined it is the library, which the program is linked with. Prints what it read. */
#include <stdint.h>
#include <stdlib.h>

#include "device.h"

#ifdef PLUGIN
USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuMemPoolCreate)
USE(cuMemPoolDestroy)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemCreate)
USE(cuMemMap)
USE(cuMemSetAccess)
USE(cuMemUnmap)
USE(cuMemRelease)
USE(cuMemRetainAllocationHandle)
USE(cuMemGetAddressRange_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoH_v2)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BYTES = 4 * MIB, BLOCKS = 12 };
enum { PLAIN, PITCH, MANAGED, ASYNC, POOL, MAPPED, KINDS };

static struct block {
    CUdeviceptr p;
    CUmemGenericAllocationHandle handle;
} blocks[BLOCKS];
static CUmemoryPool pool;
static CUcontext context;
static CUstream stream;

static CUdeviceptr map(CUmemGenericAllocationHandle *handle) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p;
    MUST(cuMemCreate(handle, BYTES, &prop, 0));
    MUST(cuMemAddressReserve(&p, BYTES, 0, 0, 0));
    MUST(cuMemMap(p, BYTES, 0, *handle, 0));
    MUST(cuMemSetAccess(p, BYTES, &access, 1));
    return p;
}

static void allocate(struct block *b, int kind) {
    size_t pitch;
    if (kind == PLAIN)
        MUST(cuMemAlloc_v2(&b->p, BYTES));
    else if (kind == PITCH)
        MUST(cuMemAllocPitch_v2(&b->p, &pitch, 4096, BYTES / 4096, 4));
    else if (kind == MANAGED)
        MUST(cuMemAllocManaged(&b->p, BYTES, CU_MEM_ATTACH_GLOBAL));
    else if (kind == ASYNC)
        MUST(cuMemAllocAsync(&b->p, BYTES, stream));
    else if (kind == POOL)
        MUST(cuMemAllocFromPoolAsync(&b->p, BYTES, pool, stream));
    else
        b->p = map(&b->handle);
}

static void give_back(const struct block *b, int kind) {
    CUmemGenericAllocationHandle again;
    if (kind == ASYNC || kind == POOL) {
        MUST(cuMemFreeAsync(b->p, stream));
        return;
    }
    if (kind != MAPPED) {
        MUST(cuMemFree_v2(b->p));
        return;
    }
    MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)b->p));
    MUST(cuMemRelease(again));
    MUST(cuMemUnmap(b->p, BYTES));
    MUST(cuMemRelease(b->handle));
    MUST(cuMemAddressFree(b->p, BYTES));
}

void allocate_all(void);
void allocate_all(void) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    context = use_device();
    stream = new_stream();
    MUST(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < BLOCKS; i++) {
        allocate(&blocks[i], i % KINDS);
        MUST(cuMemsetD32Async(blocks[i].p, (unsigned)i, BYTES / 4, stream));
    }
    MUST(cuStreamSynchronize(stream));
}

static void use(const struct block *b) {
    CUdeviceptr start;
    size_t bytes;
    unsigned words[2];
    MUST(cuMemGetAddressRange_v2(&start, &bytes, b->p + BYTES / 2));
    MUST(cuMemcpyDtoH_v2(&words[0], b->p, 4));
    MUST(cuMemsetD32Async(b->p, words[0] + 100, BYTES / 4, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(&words[1], b->p + BYTES - 4, 4));
    printf("%u %u %d %zu\n", words[0], words[1], start == b->p, bytes);
}

__attribute__((destructor)) static void free_all(void) {
    const char *counters = getenv("COUNTERS");
    printf("the counters are %s\n", access(counters, F_OK) == 0 ? "there" : "gone");
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < BLOCKS; i++)
        use(&blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        give_back(&blocks[i], i % KINDS);
    MUST(cuMemPoolDestroy(pool));
    fflush(stdout);
}
#else
void allocate_all(void);

int main(void) {
    allocate_all();
    return 0;
}
#endif
