/* Runs a script of allocations on several threads and tells what ulms.so makes of them.
 *
 * Standard input, one operation a line:   THREAD a KIND SLOT BYTES | THREAD f SLOT | barrier
 * KIND: plain pitch managed async pool ownpool array array3d mipmapped vmm retained. A slot belongs to one thread, and
 * threads take turns among the devices.
 * Output: for each operation "op INDEX STATUS ADDRESS BYTES" (as many bytes as the driver really took), and at each
 * barrier, for each device, "state USED" (in the ledger) and "asked FREE TOTAL" once for everybody who can be asked:
 * the device itself, without ulms.so; cuMemGetInfo; NVML, twice. Then "live ADDRESS BYTES" for each allocation there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "must.h"
#include "ulms.h"

USE(cuInit)
USE(cuDeviceGetCount)
USE(cuDeviceTotalMem_v2)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuCtxSynchronize)
USE(cuMemGetInfo_v2)
USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuDeviceGetDefaultMemPool)
USE(cuMemPoolCreate)
USE(cuMemPoolDestroy)
USE(cuArrayCreate_v2)
USE(cuArray3DCreate_v2)
USE(cuArrayDestroy)
USE(cuMipmappedArrayCreate)
USE(cuMipmappedArrayDestroy)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuMemCreate)
USE(cuMemMap)
USE(cuMemUnmap)
USE(cuMemRelease)
USE(cuMemRetainAllocationHandle)
USE(nvmlDeviceGetMemoryInfo)
USE(nvmlDeviceGetMemoryInfo_v2)
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);

enum { THREADS = 8, SLOTS = 64, DEVICES = 8, LINES = 4096, GRANULE = 2 << 20 };
enum { WIDTH = 1000, PITCH = 1024 }; /* the emulated device aligns rows to 512 */

struct line {
    int thread; /* -1: barrier */
    char verb;
    char kind[16];
    int slot;
    size_t bytes;
};

struct slot {
    char kind[16];
    CUdeviceptr p;
    size_t bytes;
    CUarray array;
    CUmipmappedArray mipmapped;
    CUmemoryPool pool; /* of its own */
    CUmemGenericAllocationHandle handle;
};

static struct line lines[LINES];
static int line_count, threads;
static struct slot slots[THREADS][SLOTS];
static pthread_barrier_t meet;
static CUcontext context[DEVICES];
static int devices;

/* Elements of four bytes, as many in each form. */
static CUresult allocate_array(struct slot *s, size_t bytes) {
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = bytes / 4, .Height = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = bytes / 16, .Height = 2, .Depth = 2, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR line = {.Width = bytes / 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    if (strcmp(s->kind, "array") == 0)
        return cuArrayCreate_v2(&s->array, &flat);
    if (strcmp(s->kind, "array3d") == 0)
        return cuArray3DCreate_v2(&s->array, &deep);
    s->bytes = bytes + bytes / 2 + bytes / 4;
    return cuMipmappedArrayCreate(&s->mipmapped, &line, 3);
}

static CUresult allocate_from_pool(struct slot *s, int device, size_t bytes) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemoryPool pool;
    if (strcmp(s->kind, "pool") == 0) {
        MUST(cuDeviceGetDefaultMemPool(&pool, device));
        return cuMemAllocFromPoolAsync(&s->p, bytes, pool, NULL);
    }
    MUST(cuMemPoolCreate(&s->pool, &props));
    CUresult status = cuMemAllocFromPoolAsync(&s->p, bytes, s->pool, NULL);
    if (status)
        MUST(cuMemPoolDestroy(s->pool));
    return status;
}

static CUresult allocate_vmm(struct slot *s, int device, size_t bytes) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    s->bytes = bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    CUresult status = cuMemCreate(&s->handle, bytes, &prop, 0);
    if (status)
        return status;
    MUST(cuMemAddressReserve(&s->p, bytes, 0, 0, 0));
    MUST(cuMemMap(s->p, bytes, 0, s->handle, 0));
    if (strcmp(s->kind, "retained") == 0)
        MUST(cuMemRetainAllocationHandle(&s->handle, (void *)(uintptr_t)s->p));
    return status;
}

static CUresult allocate(struct slot *s, int device, size_t bytes) {
    size_t pitch;
    CUresult status;
    s->bytes = bytes;
    if (strcmp(s->kind, "plain") == 0)
        return cuMemAlloc_v2(&s->p, bytes);
    if (strcmp(s->kind, "managed") == 0)
        return cuMemAllocManaged(&s->p, bytes, CU_MEM_ATTACH_GLOBAL);
    if (strcmp(s->kind, "async") == 0)
        return cuMemAllocAsync(&s->p, bytes, NULL);
    if (strstr(s->kind, "pool"))
        return allocate_from_pool(s, device, bytes);
    if (strstr(s->kind, "array") || strcmp(s->kind, "mipmapped") == 0)
        return allocate_array(s, bytes);
    if (strcmp(s->kind, "pitch"))
        return allocate_vmm(s, device, bytes);
    status = cuMemAllocPitch_v2(&s->p, &pitch, WIDTH, bytes / WIDTH, 4);
    s->bytes = (status ? PITCH : pitch) * (bytes / WIDTH);
    return status;
}

static CUresult give_back(struct slot *s) {
    CUresult status;
    if (s->mipmapped)
        return cuMipmappedArrayDestroy(s->mipmapped);
    if (s->array)
        return cuArrayDestroy(s->array);
    if (strcmp(s->kind, "async") == 0 || strstr(s->kind, "pool")) {
        status = cuMemFreeAsync(s->p, NULL);
        return status || !s->pool ? status : cuMemPoolDestroy(s->pool);
    }
    if (!s->handle)
        return cuMemFree_v2(s->p);
    /* released first, as often as there are handles, it lives until it is unmapped */
    MUST(cuMemRelease(s->handle));
    if (strcmp(s->kind, "retained") == 0) {
        MUST(cuMemRelease(s->handle));
        MUST(cuMemRetainAllocationHandle(&s->handle, (void *)(uintptr_t)s->p));
        MUST(cuMemRelease(s->handle));
    }
    MUST(cuMemUnmap(s->p, s->bytes));
    return cuMemAddressFree(s->p, s->bytes);
}

static void tell_asked(unsigned long long free_bytes, unsigned long long total) {
    printf("asked %llu %llu\n", free_bytes, total);
}

static void tell_memory(int device) {
    nvmlDevice_t handle;
    nvmlMemory_t first = {0};
    nvmlMemory_v2_t second = {.version = (unsigned)sizeof second | 2u << 24};
    uint64_t used = 0, all = 0;
    size_t free_bytes = 0, total = 0, told = 0;
    emu_device_memory(device, &used, &all);
    MUST(cuMemGetInfo_v2(&free_bytes, &total));
    MUST(cuDeviceTotalMem_v2(&told, device));
    if (nvmlDeviceGetHandleByIndex_v2((unsigned)device, &handle) || nvmlDeviceGetMemoryInfo(handle, &first) ||
        nvmlDeviceGetMemoryInfo_v2(handle, &second))
        abort();
    tell_asked(all - used, all);
    tell_asked(free_bytes, total);
    tell_asked(told - (total - free_bytes), told);
    tell_asked(first.free, first.free + first.used);
    tell_asked(first.free, first.total);
    tell_asked(second.free, second.free + second.used + second.reserved);
    tell_asked(second.free, second.total);
}

static void tell_state(void) {
    size_t (*list)(struct ulms_allocation *, size_t) =
        (size_t (*)(struct ulms_allocation *, size_t))dlsym(RTLD_DEFAULT, "ulms_allocations");
    const struct ulms_stats *(*stats)(void) = (const struct ulms_stats *(*)(void))dlsym(RTLD_DEFAULT, "ulms_stats");
    static struct ulms_allocation live[THREADS * SLOTS + 1];
    size_t n = list(live, THREADS * SLOTS + 1);
    for (int d = 0; d < devices; d++) {
        MUST(cuCtxSetCurrent(context[d]));
        MUST(cuCtxSynchronize()); /* frees in stream order are done */
        printf("state %llu\n", (unsigned long long)stats()->memory[d].used);
        tell_memory(d);
        for (size_t i = 0; i < n; i++)
            if (live[i].device == d)
                printf("live %llu %llu\n", (unsigned long long)live[i].start, (unsigned long long)live[i].bytes);
    }
}

static void *run(void *argument) {
    int me = (int)(long)argument, device = me % devices;
    MUST(cuCtxSetCurrent(context[device]));
    for (int i = 0; i < line_count; i++) {
        struct line *l = &lines[i];
        struct slot *s = &slots[me][l->slot];
        if (l->thread < 0) {
            pthread_barrier_wait(&meet);
            if (me == 0)
                tell_state();
            MUST(cuCtxSetCurrent(context[device]));
            pthread_barrier_wait(&meet);
        } else if (l->thread == me) {
            CUresult status;
            if (l->verb == 'a') {
                *s = (struct slot){.p = 0};
                strcpy(s->kind, l->kind);
                status = allocate(s, device, l->bytes);
                if (status)
                    s->kind[0] = 0;
            } else {
                status = s->kind[0] ? give_back(s) : (CUresult)-1;
            }
            printf("op %d %d %llu %zu\n", i, (int)status, (unsigned long long)s->p, s->bytes);
            if (l->verb == 'f')
                s->kind[0] = 0;
        }
    }
    return NULL;
}

int main(void) {
    char text[128];
    while (line_count < LINES && fgets(text, sizeof text, stdin)) {
        struct line *l = &lines[line_count++];
        if (sscanf(text, "%d a %15s %d %zu", &l->thread, l->kind, &l->slot, &l->bytes) == 4)
            l->verb = 'a';
        else if (sscanf(text, "%d f %d", &l->thread, &l->slot) == 2)
            l->verb = 'f';
        else
            l->thread = -1;
        if (l->thread >= threads)
            threads = l->thread + 1;
    }
    MUST(cuInit(0));
    MUST(cuDeviceGetCount(&devices));
    for (int d = 0; d < devices; d++)
        MUST(cuDevicePrimaryCtxRetain(&context[d], d));
    if (nvmlInit_v2())
        return 1;
    pthread_t id[THREADS];
    pthread_barrier_init(&meet, NULL, (unsigned)threads);
    for (long t = 0; t < threads; t++)
        pthread_create(&id[t], NULL, run, (void *)t);
    for (int t = 0; t < threads; t++)
        pthread_join(id[t], NULL);
    return 0;
}
