/* Runs a script of allocations on several threads and tells what ulms.so makes of them.
 *
 * Standard input, one operation a line:   THREAD a KIND SLOT BYTES | THREAD f SLOT | barrier
 * KIND: plain pitch managed async pool array vmm. A slot belongs to one thread.
 * Output: for each operation "op INDEX STATUS ADDRESS BYTES" (as many bytes as the driver really took), and at each
 * barrier "state USED FREE TOTAL COUNT" followed by "live ADDRESS BYTES KIND" for each allocation in the ledger. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/abi.h"
#include "ulms.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned int element);
CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned int flags);
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d);
CUresult cuArrayDestroy(CUarray array);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr p, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags);
CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr p, size_t bytes);
CUresult cuMemRelease(CUmemGenericAllocationHandle h);

enum { THREADS = 8, SLOTS = 64, LINES = 4096, GRANULE = 2 << 20 };
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
    CUmemGenericAllocationHandle handle;
};

static struct line lines[LINES];
static int line_count, threads;
static struct slot slots[THREADS][SLOTS];
static pthread_barrier_t meet;
static CUcontext context;

static CUresult allocate(struct slot *s, size_t bytes) {
    size_t pitch;
    CUmemoryPool pool;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUDA_ARRAY_DESCRIPTOR d = {.Width = bytes / 4, .Height = 1, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUresult status;
    s->bytes = bytes;
    if (strcmp(s->kind, "plain") == 0)
        return cuMemAlloc_v2(&s->p, bytes);
    if (strcmp(s->kind, "managed") == 0)
        return cuMemAllocManaged(&s->p, bytes, CU_MEM_ATTACH_GLOBAL);
    if (strcmp(s->kind, "async") == 0)
        return cuMemAllocAsync(&s->p, bytes, NULL);
    if (strcmp(s->kind, "pool") == 0)
        return cuDeviceGetDefaultMemPool(&pool, 0) ? CUDA_ERROR_UNKNOWN
                                                   : cuMemAllocFromPoolAsync(&s->p, bytes, pool, NULL);
    if (strcmp(s->kind, "array") == 0)
        return cuArrayCreate_v2(&s->array, &d);
    if (strcmp(s->kind, "pitch") == 0) {
        status = cuMemAllocPitch_v2(&s->p, &pitch, WIDTH, bytes / WIDTH, 4);
        s->bytes = (status ? PITCH : pitch) * (bytes / WIDTH);
        return status;
    }
    s->bytes = bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    if ((status = cuMemCreate(&s->handle, bytes, &prop, 0)))
        return status;
    if ((status = cuMemAddressReserve(&s->p, bytes, 0, 0, 0)) || (status = cuMemMap(s->p, bytes, 0, s->handle, 0)))
        abort();
    return status;
}

static CUresult give_back(struct slot *s) {
    if (strcmp(s->kind, "array") == 0)
        return cuArrayDestroy(s->array);
    if (strcmp(s->kind, "async") == 0 || strcmp(s->kind, "pool") == 0)
        return cuMemFreeAsync(s->p, NULL);
    if (strcmp(s->kind, "vmm"))
        return cuMemFree_v2(s->p);
    /* released first, it lives until it is unmapped */
    CUresult status = cuMemRelease(s->handle);
    return status || (status = cuMemUnmap(s->p, s->bytes)) ? status : cuMemAddressFree(s->p, s->bytes);
}

static void tell_state(void) {
    size_t (*list)(struct ulms_allocation *, size_t) =
        (size_t (*)(struct ulms_allocation *, size_t))dlsym(RTLD_DEFAULT, "ulms_allocations");
    const struct ulms_stats *(*stats)(void) = (const struct ulms_stats *(*)(void))dlsym(RTLD_DEFAULT, "ulms_stats");
    static struct ulms_allocation live[THREADS * SLOTS + 1];
    size_t free_bytes = 0, total = 0, n = list ? list(live, THREADS * SLOTS + 1) : 0;
    cuMemGetInfo_v2(&free_bytes, &total);
    printf("state %llu %zu %zu %zu\n", stats ? (unsigned long long)stats()->memory[0].used : 0, free_bytes, total, n);
    for (size_t i = 0; i < n; i++)
        printf("live %llu %llu %u\n", (unsigned long long)live[i].start, (unsigned long long)live[i].bytes,
               live[i].kind);
}

static void *run(void *argument) {
    int me = (int)(long)argument;
    cuCtxSetCurrent(context);
    for (int i = 0; i < line_count; i++) {
        struct line *l = &lines[i];
        struct slot *s = &slots[me][l->slot];
        if (l->thread < 0) {
            pthread_barrier_wait(&meet);
            if (me == 0)
                tell_state();
            pthread_barrier_wait(&meet);
        } else if (l->thread == me) {
            CUresult status;
            if (l->verb == 'a') {
                *s = (struct slot){.p = 0};
                strcpy(s->kind, l->kind);
                status = allocate(s, l->bytes);
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
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
        return 1;
    pthread_t id[THREADS];
    pthread_barrier_init(&meet, NULL, (unsigned)threads);
    for (long t = 0; t < threads; t++)
        pthread_create(&id[t], NULL, run, (void *)t);
    for (int t = 0; t < threads; t++)
        pthread_join(id[t], NULL);
    return 0;
}
