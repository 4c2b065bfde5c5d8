/* Many threads at once; contents, accounts and pages are right afterwards. Also run under ThreadSanitizer. */
#include "emu_api.h"

enum { THREADS = 6, ROUNDS = 60, PIECES = 8, FLOATS = 3000 };

static CUcontext context;
static CUdeviceptr shared_managed;
static CUfunction fill_kernel, scale_kernel;

static void launch(CUfunction f, CUstream s, CUdeviceptr p, float value, uint64_t n) {
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &value, &n}, NULL));
}

/* Allocates, computes, checks, frees, in streams of its own. */
static void *work(void *id) {
    unsigned random = (unsigned)(uintptr_t)id * 2654435761u;
    float *back = malloc(FLOATS * sizeof *back);
    OK(cuCtxSetCurrent(context));
    CUstream s = new_stream(random & 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), other = new_stream(1);
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr p[PIECES];
        for (int i = 0; i < PIECES; i++) {
            random = random * 1664525 + 1013904223;
            size_t bytes = FLOATS * sizeof(float) + (random >> 8) % (3 * MiB);
            if (i % 3 == 0)
                OK(cuMemAllocAsync(&p[i], bytes, s));
            else
                OK(i % 3 == 1 ? cuMemAlloc_v2(&p[i], bytes) : cuMemAllocManaged(&p[i], bytes, CU_MEM_ATTACH_GLOBAL));
            launch(fill_kernel, s, p[i], (float)i, FLOATS);
        }
        OK(cuEventRecord(e, s));
        OK(cuStreamWaitEvent(other, e, 0));
        for (int i = 0; i < PIECES; i++)
            launch(scale_kernel, other, p[i], 2, FLOATS);
        OK(cuMemPrefetchAsync(shared_managed + (random >> 16) % 8 * 2 * MiB, 2 * MiB, random & 64 ? 0 : -1, other));
        OK(cuStreamSynchronize(other));
        for (int i = 0; i < PIECES; i++) {
            OK(cuMemcpyDtoHAsync_v2(back, p[i], FLOATS * sizeof *back, s));
            CHECK(back[0] == 2 * (float)i && back[FLOATS - 1] == 2 * (float)i);
        }
        for (int i = 0; i < PIECES; i++) {
            if (i % 3 == 0)
                OK(cuMemFreeAsync(p[i], s));
            else
                OK(cuMemFree_v2(p[i]));
        }
    }
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy_v2(s));
    OK(cuStreamDestroy_v2(other));
    OK(cuEventDestroy_v2(e));
    free(back);
    return NULL;
}

/* Maps, uses and unmaps its own address over and over. */
static void *remap(void *unused) {
    (void)unused;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc d = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuMemAddressReserve(&p, 2 * MiB, 0, 0, 0));
    for (int i = 0; i < 2; i++)
        OK(cuMemCreate(&h[i], 2 * MiB, &prop, 0));
    for (int round = 0; round < ROUNDS; round++) {
        OK(cuMemMap(p, 2 * MiB, 0, h[round % 2], 0));
        OK(cuMemSetAccess(p, 2 * MiB, &d, 1));
        if (round > 1)
            CHECK(first_float(p) == (float)(round - 2));
        launch(fill_kernel, s, p, (float)round, 1);
        OK(cuStreamSynchronize(s));
        OK(cuMemUnmap(p, 2 * MiB));
    }
    for (int i = 0; i < 2; i++)
        OK(cuMemRelease(h[i]));
    OK(cuMemAddressFree(p, 2 * MiB));
    OK(cuStreamDestroy_v2(s));
    return NULL;
}

/* Captures and launches graphs. */
static void *graphs(void *unused) {
    (void)unused;
    OK(cuCtxSetCurrent(context));
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4);
    for (int round = 0; round < ROUNDS; round++) {
        CUgraph g;
        CUgraphExec e;
        OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        launch(fill_kernel, s, p, (float)round, 1);
        launch(scale_kernel, s, p, 2, 1);
        OK(cuStreamEndCapture(s, &g));
        OK(cuGraphInstantiateWithFlags(&e, g, 0));
        OK(cuGraphLaunch(e, s));
        OK(cuGraphDestroy(g));
        OK(cuGraphExecDestroy(e));
        OK(cuStreamSynchronize(s));
        float back;
        OK(cuMemcpyDtoHAsync_v2(&back, p, 4, s));
        CHECK(back == 2 * (float)round);
    }
    OK(cuMemFree_v2(p));
    OK(cuStreamDestroy_v2(s));
    return NULL;
}

TEST(many_threads) {
    setenv("EMU_MEMORY", "160MiB", 1); /* managed memory is driven out now and then */
    context = begin();
    fill_kernel = kernel("fill");
    scale_kernel = kernel("scale");
    shared_managed = managed_memory(16 * MiB);
    memset((void *)(uintptr_t)shared_managed, 5, 16 * MiB);
    pthread_t t[THREADS + 2];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1));
    pthread_create(&t[THREADS], NULL, remap, NULL);
    pthread_create(&t[THREADS + 1], NULL, graphs, NULL);
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(t[i], NULL);
    OK(cuCtxSynchronize());
    for (int i = 0; i < 16 * MiB; i += 4096)
        CHECK_EQ(((char *)(uintptr_t)shared_managed)[i], 5);
    OK(cuMemFree_v2(shared_managed));
    CHECK_EQ(memory_used(), 2 * MiB); /* the image's variable */
}
