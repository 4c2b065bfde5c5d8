/* Threads take memory at the same moments, plain memory or a handle's.
 *
 *   comers SEED
 * Output: "most BYTES": of the device, as the emulator counted. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "device.h"
#include "emu.h"
USE(cuMemAlloc_v2)
USE(cuMemCreate)
USE(cuMemAddressReserve)
USE(cuMemMap)
USE(cuMemSetAccess)

enum { THREADS = 4, PIECES = 5, GRAIN = 2 << 20, GRAINS = 6 };

static CUcontext context;
static pthread_barrier_t meet;

static void take_handle(size_t bytes) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    MUST(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    MUST(cuMemMap(p, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(p, bytes, &access, 1));
}

static void *take(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    CUdeviceptr p;
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < PIECES; i++) {
        size_t grains = 1 + (size_t)rand_r(&random) % GRAINS;
        bool handle = rand_r(&random) % 2;
        pthread_barrier_wait(&meet);
        if (handle)
            take_handle(grains * GRAIN);
        else
            MUST(cuMemAlloc_v2(&p, grains * GRAIN - (size_t)rand_r(&random) % GRAIN));
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    if (argc < 2)
        return 2;
    context = use_device();
    pthread_barrier_init(&meet, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take, (void *)(THREADS * (uintptr_t)atoi(argv[1]) + i));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("most %llu\n", (unsigned long long)emu_device_peak(0));
    return 0;
}
