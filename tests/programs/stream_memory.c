/* Memory that comes and goes in stream order; the first argument says how. Lines that begin with "is" tell how the
 * driver holds the memory; all others must be the same without ulms.so. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "emu.h"
#include "gate.h"
#include "part.h"
#include "patience.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSynchronize)
USE(cuStreamDestroy_v2)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuEventCreate)
USE(cuEventRecord)
USE(cuEventSynchronize)
USE(cuGraphGetNodes)
USE(cuGraphNodeGetType)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemAllocFromPoolAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemGetInfo_v2)
USE(cuDeviceGetDefaultMemPool)
USE(cuPointerGetAttribute)
USE(cuMemcpyDtoDAsync_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemPoolSetAttribute)
USE(cuMemPoolTrimTo)
USE(cuMemsetD8Async)

/* Of per-thread default streams. */
extern __typeof__(cuStreamBeginCapture_v2) cuStreamBeginCapture_v2_ptsz;
extern __typeof__(cuStreamEndCapture) cuStreamEndCapture_ptsz;

enum { MIB = 1 << 20, BLOCKS = 6, FEW = 2, BLOCK = 256 * MIB, PATIENCE_S = 150 };

static CUcontext context;
static CUstream stream;

static bool there(CUdeviceptr p) {
    return emu_mapped(p) || emu_page(p) != EMU_UNKNOWN;
}

/* --- another thread's operations in a captured stream --- */

static void *issue(void *unused) {
    CUdeviceptr p;
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAllocAsync(&p, 32 * MIB, stream));
    MUST(cuMemsetD8Async(p, 1, 32 * MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    return unused;
}

static void capture(void) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[8];
    size_t n = 8;
    pthread_t other;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (pthread_create(&other, NULL, issue, NULL))
        exit(1);
    pthread_join(other, NULL);
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphGetNodes(graph, nodes, &n));
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        MUST(cuGraphNodeGetType(nodes[i], &type));
        printf("node %d\n", (int)type);
    }
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        MUST(cuGraphLaunch(exec, stream));
        MUST(cuStreamSynchronize(stream));
    }
}

/* --- much is freed while another stream, or context, is held up by what the program does last --- */

static CUdeviceptr block[BLOCKS];

static void allocate_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAllocAsync(&block[i], BLOCK, stream));
    MUST(cuStreamSynchronize(stream));
}

static void free_blocks(int count) {
    for (int i = 0; i < count; i++)
        MUST(cuMemFreeAsync(block[i], stream));
}

static int blocks_there(void) {
    int count = 0;
    for (int i = 0; i < BLOCKS; i++)
        count += there(block[i]);
    return count;
}

static void tell_blocks(const char *when) {
    printf("is %d of %d there %s\n", blocks_there(), BLOCKS, when);
}

static void waits(void) {
    CUevent event;
    allocate_blocks();
    volatile unsigned *word = close_gate(new_stream());
    free_blocks(BLOCKS);
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(event, stream));
    MUST(cuEventSynchronize(event));
    MUST(cuStreamSynchronize(stream));
    tell_blocks("beside the other stream");
    *word = 1;
    MUST(cuCtxSynchronize());
    tell_blocks("after the context was waited for");
}

/* Nobody ever waits for more than a stream. Whether a context has nothing to do is asked for a moment only, in which a
 * machine at work on something else may not tell. */
static void streams(void) {
    enum { ROUNDS = 200 };
    for (int i = 0; i < 2 || (i < ROUNDS && blocks_there()); i++) {
        allocate_blocks();
        free_blocks(BLOCKS);
        MUST(cuStreamSynchronize(stream));
    }
    tell_blocks("after the stream was waited for");
}

static void contexts(void) {
    CUcontext other;
    allocate_blocks();
    volatile unsigned *word = close_gate(new_stream());
    free_blocks(FEW);
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    MUST(cuCtxSynchronize());
    tell_blocks("after another context was waited for");
    *word = 1;
    MUST(cuCtxSetCurrent(context));
    MUST(cuCtxSynchronize());
    tell_blocks("after their own was");
}

/* Memory of a context that is freed while another stream captures is freed when nothing is held up any more. */
static void allocates(void) {
    CUdeviceptr p, q;
    CUgraph graph;
    CUstream captured = new_stream();
    MUST(cuMemAlloc_v2(&p, 8 * MIB));
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemFree_v2(p));
    MUST(cuStreamEndCapture(captured, &graph));
    volatile unsigned *word = close_gate(new_stream());
    MUST(cuMemAlloc_v2(&q, 16 * MIB));
    *word = 1;
    MUST(cuCtxSynchronize());
    MUST(cuMemFree_v2(q));
}

/* --- captures that end otherwise than by being ended --- */

static void tell_after_capture(void) {
    allocate_blocks();
    tell_blocks("after the capture");
    free_blocks(BLOCKS);
    MUST(cuCtxSynchronize());
    tell_blocks("after the context was waited for");
}

static void destroyed(void) {
    CUstream captured = new_stream();
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuStreamDestroy_v2(captured));
    tell_after_capture();
}

static void context_destroyed(void) {
    CUcontext other;
    MUST(cuCtxCreate_v2(&other, 0, 0));
    MUST(cuStreamBeginCapture_v2(new_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    tell_after_capture();
}

enum { SMALL = 24, SMALL_BYTES = 16 * MIB };

static void allocate_small(CUdeviceptr p[SMALL]) {
    for (int i = 0; i < SMALL; i++)
        MUST(cuMemAlloc_v2(&p[i], SMALL_BYTES));
    for (int i = 0; i < SMALL; i++)
        MUST(cuMemsetD8Async(p[i], 1, SMALL_BYTES, stream));
    MUST(cuStreamSynchronize(stream));
}

/* Moves would spoil the capture. */
static void end_with_small(CUstream captured, const CUdeviceptr p[SMALL]) {
    CUgraph graph;
    size_t n = 0;
    for (int i = 0; i < SMALL; i++)
        MUST(cuMemsetD8Async(p[i], 1, SMALL_BYTES, captured));
    MUST(cuStreamEndCapture(captured, &graph));
    MUST(cuGraphGetNodes(graph, NULL, &n));
    printf("%zu nodes\n", n);
}

/* The end is refused for a mistake in the call, and the capture goes on. */
static void mistaken(void) {
    CUdeviceptr p[SMALL];
    CUstream captured = new_stream();
    allocate_small(p);
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("without a graph: %d\n", (int)cuStreamEndCapture(captured, NULL));
    end_with_small(captured, p);
}

/* A stream of one context begins to capture while another one is current, which goes. */
static void other_destroyed(void) {
    CUdeviceptr p[SMALL];
    CUcontext other;
    CUstream captured = new_stream();
    allocate_small(p);
    MUST(cuCtxCreate_v2(&other, 0, 0));
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    end_with_small(captured, p);
}

/* The other way round. */
static void its_own_destroyed(void) {
    CUcontext other;
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUstream captured = new_stream();
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    tell_after_capture();
}

static pthread_barrier_t turn;

static void tell_new(const char *what) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, 32 * MIB));
    printf("is %sreplaced %s\n", there(p) ? "" : "not ", what);
}

static void *capture_second(void *unused) {
    CUgraph graph;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    tell_new("while it captures");
    MUST(cuStreamEndCapture_ptsz(NULL, &graph));
    return unused;
}

/* Of two threads that capture the streams of their own. */
static void own(void) {
    CUgraph graph;
    pthread_t other;
    pthread_barrier_init(&turn, NULL, 2);
    MUST(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (pthread_create(&other, NULL, capture_second, NULL))
        exit(1);
    pthread_barrier_wait(&turn);
    MUST(cuStreamEndCapture_ptsz(NULL, &graph));
    tell_new("of the thread that has ended its capture");
    pthread_barrier_wait(&turn);
    pthread_join(other, NULL);
}

/* A stream of another device than the current context's gives memory of its own device. */
static void devices(void) {
    CUcontext other;
    CUmemoryPool pool;
    CUdeviceptr p[2];
    size_t before, after, total;
    MUST(cuDevicePrimaryCtxRetain(&other, 1));
    MUST(cuCtxSetCurrent(other));
    MUST(cuDeviceGetDefaultMemPool(&pool, 1));
    CUstream there = new_stream();
    MUST(cuMemGetInfo_v2(&before, &total));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAllocAsync(&p[0], 32 * MIB, there));
    MUST(cuMemAllocFromPoolAsync(&p[1], 32 * MIB, pool, there));
    for (int i = 0; i < 2; i++) {
        int device = -1;
        MUST(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[i]));
        MUST(cuMemsetD8Async(p[i], 1, 32 * MIB, there));
        MUST(cuMemFreeAsync(p[i], there));
        MUST(cuStreamSynchronize(there));
        printf("of device %d\n", device);
    }
    MUST(cuCtxSetCurrent(other));
    MUST(cuMemGetInfo_v2(&after, &total));
    printf("taken %zu\n", before - after);
}

static void twice(void) {
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, 32 * MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    printf("freed again: %d\n", (int)cuMemFree_v2(p));
}

static void stray(struct emu_launch *l) {
    emu_use(l, 16, 4, EMU_WRITE);
}

static const struct emu_kernel kernels[] = {{"stray", NULL, 0, stray}};
static const struct emu_image image = {EMU_MAGIC, kernels, 1, NULL, 0};

static void lost(void) {
    CUdeviceptr p;
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, "stray"));
    MUST(cuMemAllocAsync(&p, 32 * MIB, stream));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    printf("lost: %d\n", (int)cuStreamSynchronize(stream));
    printf("freed: %d\n", (int)cuMemFreeAsync(p, stream));
}

/* A stream of another context may free; it is held up, and the memory's own context is waited for. */
static void elsewhere(void) {
    CUcontext other;
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, 32 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUstream its = new_stream();
    volatile unsigned *word = close_gate(its);
    MUST(cuMemsetD8Async(p, 1, 32 * MIB, its));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemFreeAsync(p, its));
    MUST(cuCtxSynchronize());
    printf("is %sthere before its use\n", there(p) ? "" : "not ");
    *word = 1;
    MUST(cuStreamSynchronize(its));
    MUST(cuCtxSynchronize());
    printf("is %sthere after it\n", there(p) ? "" : "not ");
}

/* A step passes on what it computes from one temporary to the next, while the device is held up; a pool keeps them. */
static void repeats(void) {
    enum { STEPS = 4, LINKS = 6, BYTES = 32 * MIB };
    CUmemoryPool pool;
    CUdeviceptr p[LINKS], before[LINKS] = {0};
    uint64_t all = UINT64_MAX;
    unsigned char last;
    int same = 0;
    MUST(cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    for (int step = 0; step < STEPS; step++) {
        volatile unsigned *word = close_gate(stream);
        for (int i = 0; i < LINKS; i++) {
            MUST(cuMemAllocAsync(&p[i], BYTES, stream));
            if (i == 0)
                MUST(cuMemsetD8Async(p[i], (unsigned char)(step + 1), BYTES, stream));
            else
                MUST(cuMemcpyDtoDAsync_v2(p[i], p[i - 1], BYTES, stream));
            if (i > 0)
                MUST(cuMemFreeAsync(p[i - 1], stream));
        }
        *word = 1;
        MUST(cuStreamSynchronize(stream));
        MUST(cuMemcpyDtoH_v2(&last, p[LINKS - 1] + BYTES - 1, 1));
        MUST(cuMemFreeAsync(p[LINKS - 1], stream));
        MUST(cuStreamSynchronize(stream));
        for (int i = 0; i < LINKS; i++)
            same += p[i] == before[i];
        memcpy(before, p, sizeof before);
        printf("the last has %d\n", last);
    }
    printf("is %d of %d where they were\n", same, (STEPS - 1) * LINKS);
    printf("is %sthere\n", there(p[0]) ? "" : "not ");
    MUST(cuMemPoolTrimTo(pool, 0));
    MUST(cuCtxSynchronize());
    printf("is %sthere after the pool gave all back\n", there(p[0]) ? "" : "not ");
}

static const struct part parts[] = {{"capture", capture},
                                    {"waits", waits},
                                    {"streams", streams},
                                    {"contexts", contexts},
                                    {"allocates", allocates},
                                    {"destroyed", destroyed},
                                    {"context destroyed", context_destroyed},
                                    {"mistaken", mistaken},
                                    {"other destroyed", other_destroyed},
                                    {"its own destroyed", its_own_destroyed},
                                    {"own", own},
                                    {"devices", devices},
                                    {"twice", twice},
                                    {"lost", lost},
                                    {"elsewhere", elsewhere},
                                    {"repeats", repeats},
                                    {NULL, NULL}};

int main(int argc, char **argv) {
    end_after(PATIENCE_S);
    context = use_device();
    stream = new_stream();
    int status = run_part(parts, argc, argv);
    printf("done\n");
    return status;
}
