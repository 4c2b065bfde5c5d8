/* A program made of a seed that takes and gives back memory in all ways: what the device held at most is told.
 *
 *   limits SEED STEPS MIB     MIB: the most that one allocation or graph takes
 * Output: "most BYTES": of the device, as the emulator counted; "refused N": allocations and launches. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "emu.h"
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuMemFreeAsync)
USE(cuMemPoolCreate)
USE(cuMemPoolDestroy)
USE(cuMemPoolSetAttribute)
USE(cuMemGetInfo_v2)
USE(cuMemsetD8Async)
USE(cuMemHostAlloc)
USE(cuMemcpyDtoHAsync_v2)
USE(cuStreamSynchronize)
USE(cuCtxSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphExecDestroy)
USE(cuGraphDestroy)

enum { SLOTS = 24, STREAMS = 4, POOLS = 2, GRAPHS = 3, MIB = 1 << 20, COPIED = 4 * MIB };

static uint64_t state;
static size_t most;
static unsigned refused;
static CUstream streams[STREAMS];
static struct slot {
    CUdeviceptr p;
    size_t bytes;
    int stream; /* -1: freed at once */
    int pool;   /* -1: none of its own */
} slots[SLOTS];
static struct pool {
    CUmemoryPool handle;
    int pieces;
} pools[POOLS];
static CUgraphExec graphs[GRAPHS];
static CUdeviceptr copied;
static void *host;

static uint64_t below(uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static size_t any_bytes(void) {
    switch (below(8)) {
    case 0:
        return 1 + below(MIB);
    case 1:
        return below(40) ? most / 2 : SIZE_MAX - below(3 * MIB);
    default:
        return 1 + below(most);
    }
}

/* The stream stays busy for a while, in the time of a device. */
static void delay(CUstream s) {
    MUST(cuMemcpyDtoHAsync_v2(host, copied, 1 + below(COPIED), s));
}

static bool taken(struct slot *s, CUresult status) {
    if (status == CUDA_SUCCESS)
        return true;
    if (status != CUDA_ERROR_OUT_OF_MEMORY && status != CUDA_ERROR_INVALID_VALUE)
        MUST(status);
    refused++;
    s->p = 0;
    return false;
}

static void take(struct slot *s) {
    size_t bytes = any_bytes(), pitch;
    CUstream at = streams[s->stream = (int)below(STREAMS)];
    s->pool = -1;
    s->bytes = bytes;
    switch (below(6)) {
    case 0:
        s->stream = -1;
        if (taken(s, cuMemAlloc_v2(&s->p, bytes)))
            MUST(cuMemsetD8Async(s->p, 1, bytes, at));
        return;
    case 1:
        s->stream = -1;
        s->bytes = 0;
        taken(s, cuMemAllocPitch_v2(&s->p, &pitch, 1 + below(2000), 1 + below(most / 4096), 4));
        return;
    case 2:
        s->pool = (int)below(POOLS);
        if (pools[s->pool].handle && taken(s, cuMemAllocFromPoolAsync(&s->p, bytes, pools[s->pool].handle, at))) {
            pools[s->pool].pieces++;
            MUST(cuMemsetD8Async(s->p, 1, bytes, at));
        }
        return;
    default:
        if (taken(s, cuMemAllocAsync(&s->p, bytes, at)))
            MUST(cuMemsetD8Async(s->p, 1, bytes, at));
    }
}

static void drop(struct slot *s) {
    if (s->stream < 0) {
        MUST(cuMemFree_v2(s->p));
    } else {
        delay(streams[s->stream]);
        MUST(cuMemFreeAsync(s->p, streams[s->stream]));
    }
    if (s->pool >= 0)
        pools[s->pool].pieces--;
    s->p = 0;
}

static void change_pool(struct pool *p) {
    cuuint64_t keep = below(2) ? 0 : 16 * MIB;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    if (p->handle && p->pieces == 0) {
        MUST(cuMemPoolDestroy(p->handle));
        p->handle = NULL;
    } else if (!p->handle) {
        MUST(cuMemPoolCreate(&p->handle, &props));
        MUST(cuMemPoolSetAttribute(p->handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    }
}

static void make_graph(CUgraphExec *exec) {
    CUgraph g;
    CUdeviceptr p[3];
    CUstream s = streams[0];
    MUST(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint64_t round = 0, rounds = 1 + below(4); round < rounds; round++) {
        uint64_t n = 1 + below(3);
        for (uint64_t i = 0; i < n; i++)
            MUST(cuMemAllocAsync(&p[i], 1 + below(most / 4), s));
        for (uint64_t i = 0; i < n; i++)
            MUST(cuMemsetD8Async(p[i], 1, 1, s));
        for (uint64_t i = 0; i < n; i++)
            MUST(cuMemFreeAsync(p[i], s));
    }
    MUST(cuStreamEndCapture(s, &g));
    MUST(cuGraphInstantiateWithFlags(exec, g, 0));
    MUST(cuGraphDestroy(g));
}

static void use_graph(CUgraphExec *exec) {
    struct slot unused;
    CUstream s = streams[below(STREAMS)];
    if (!*exec) {
        make_graph(exec);
    } else if (below(4) == 0) {
        MUST(cuGraphExecDestroy(*exec));
        *exec = NULL;
    } else {
        delay(s);
        taken(&unused, cuGraphLaunch(*exec, s));
    }
}

static void step(void) {
    struct slot *s = &slots[below(SLOTS)];
    size_t free_bytes, total;
    switch (below(16)) {
    case 0:
        MUST(cuStreamSynchronize(streams[below(STREAMS)]));
        break;
    case 1:
        MUST(cuCtxSynchronize());
        break;
    case 2:
        change_pool(&pools[below(POOLS)]);
        break;
    case 3:
    case 4:
        use_graph(&graphs[below(GRAPHS)]);
        break;
    case 5:
        MUST(cuMemGetInfo_v2(&free_bytes, &total));
        if (free_bytes > total)
            printf("free %zu of %zu\n", free_bytes, total);
        break;
    default:
        s->p ? drop(s) : take(s);
    }
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    use_device();
    state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
    most = strtoull(argv[3], NULL, 10) * MIB;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = new_stream();
    MUST(cuMemAlloc_v2(&copied, COPIED));
    MUST(cuMemHostAlloc(&host, COPIED, 0));
    for (int steps = atoi(argv[2]); steps > 0; steps--)
        step();
    MUST(cuCtxSynchronize());
    printf("most %llu\nrefused %u\n", (unsigned long long)emu_device_peak(0), refused);
    return 0;
}
