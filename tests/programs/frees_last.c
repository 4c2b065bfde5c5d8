/* frees_last: a library's destructor works with memory, and frees it, after ours has run.
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
USE(cuMemsetD32Async)
USE(cuMemcpyDtoH_v2)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BYTES = 4 * MIB, BLOCKS = 12 };
enum { PLAIN, PITCH, MANAGED, ASYNC, POOL, KINDS };

static CUdeviceptr blocks[BLOCKS];
static CUmemoryPool pool;
static CUcontext context;
static CUstream stream;

static void allocate(CUdeviceptr *p, int kind) {
    size_t pitch;
    if (kind == PLAIN)
        MUST(cuMemAlloc_v2(p, BYTES));
    else if (kind == PITCH)
        MUST(cuMemAllocPitch_v2(p, &pitch, 4096, BYTES / 4096, 4));
    else if (kind == MANAGED)
        MUST(cuMemAllocManaged(p, BYTES, CU_MEM_ATTACH_GLOBAL));
    else if (kind == ASYNC)
        MUST(cuMemAllocAsync(p, BYTES, stream));
    else
        MUST(cuMemAllocFromPoolAsync(p, BYTES, pool, stream));
}

static void give_back(CUdeviceptr p, int kind) {
    if (kind == ASYNC || kind == POOL)
        MUST(cuMemFreeAsync(p, stream));
    else
        MUST(cuMemFree_v2(p));
}

void allocate_all(void);
void allocate_all(void) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    context = use_device();
    stream = new_stream();
    MUST(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < BLOCKS; i++) {
        allocate(&blocks[i], i % KINDS);
        MUST(cuMemsetD32Async(blocks[i], (unsigned)i, BYTES / 4, stream));
    }
    MUST(cuStreamSynchronize(stream));
}

static void use(CUdeviceptr p) {
    unsigned words[2];
    MUST(cuMemcpyDtoH_v2(&words[0], p, 4));
    MUST(cuMemsetD32Async(p, words[0] + 100, BYTES / 4, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(&words[1], p + BYTES - 4, 4));
    printf("%u %u\n", words[0], words[1]);
}

__attribute__((destructor)) static void free_all(void) {
    const char *counters = getenv("COUNTERS");
    printf("the counters are %s\n", access(counters, F_OK) == 0 ? "there" : "gone");
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < BLOCKS; i++)
        use(blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        give_back(blocks[i], i % KINDS);
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
