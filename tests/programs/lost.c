/* Calls in contexts and streams that are gone, lost or none, over and over, while memory moves.
 *
 *   lost destroyed  contexts go that are another thread's current one
 *   lost poisoned   a kernel writes where there is no memory: its context answers nothing else until it is reset
 *   lost nowhere    a thread without a context uses and frees what belongs to one
 *   lost reset      the primary context is reset amid work
 *   lost streams    streams go before their work is done, and its memory right behind it
 *   lost threads    threads come and go, and leave memory and work that others end
 *
 * Prints what the driver answered and what the memory held. */
#include <pthread.h>
#include <stdlib.h>

#include "device.h"
#include "part.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSynchronize)
USE(cuDevicePrimaryCtxRelease_v2)
USE(cuDevicePrimaryCtxReset_v2)
USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemAllocPitch_v2)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemGetAddressRange_v2)
USE(cuMemGetInfo_v2)
USE(cuMemcpyDtoD_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemsetD32Async)
USE(cuMemsetD8_v2)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamBeginCapture_v2)
USE(cuStreamDestroy_v2)
USE(cuStreamQuery)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BLOCK = 4 * MIB, BLOCKS = 12, THREADS = 4 };

static CUcontext context;
static CUstream stream;
static CUfunction kernel; /* fill */
static CUdeviceptr block[BLOCKS];

#define SAY(call) printf("%d %s\n", (int)(call), #call)

static CUresult fill(CUdeviceptr p, float value, CUstream s) {
    uint64_t words = BLOCK / 4;
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &value, &words}, NULL);
}

static void begin(void) {
    CUmodule module;
    context = use_device();
    stream = new_stream();
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&kernel, module, "fill"));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
}

static void use_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(fill(block[i], (float)i, stream));
}

static void must_hold(CUdeviceptr p, float value) {
    float found;
    MUST(cuMemcpyDtoH_v2(&found, p + BLOCK - sizeof found, sizeof found));
    if (found != value)
        printf("%g is there, in the place of %g\n", (double)found, (double)value);
}

static void check(void) {
    MUST(cuStreamSynchronize(stream));
    for (int i = 0; i < BLOCKS; i++)
        must_hold(block[i], (float)i);
}

/* Of a range that ends in nobody's memory, too. */
static void say_all(CUdeviceptr p, CUstream s) {
    CUdeviceptr fresh = 0;
    size_t bytes, all;
    SAY(cuMemsetD8_v2(p, 0, 4));
    SAY(cuMemsetD8_v2(p, 0, 1ull << 40));
    SAY(cuMemsetD32Async(p, 0, 1ull << 40, s));
    SAY(cuMemcpyDtoD_v2(p, block[2], 4));
    SAY(fill(p, 0, s));
    SAY(cuMemFreeAsync(p, s));
    SAY(cuMemFree_v2(p));
    SAY(cuMemFree_v2(p));
    SAY(cuMemAlloc_v2(&fresh, BLOCK));
    SAY(cuMemAlloc_v2(&fresh, 100));
    SAY(cuMemAllocPitch_v2(&fresh, &bytes, 4096, 4096, 4));
    SAY(cuMemAllocAsync(&fresh, BLOCK, s));
    SAY(cuMemGetInfo_v2(&bytes, &all));
    SAY(cuMemGetAddressRange_v2(&fresh, &bytes, p));
    SAY(cuStreamQuery(s));
    SAY(cuStreamSynchronize(s));
    SAY(cuCtxSynchronize());
}

static CUcontext passing;
static CUdeviceptr its;
static pthread_barrier_t both;

static void *stay(void *unused) {
    MUST(cuCtxSetCurrent(passing));
    MUST(cuMemAlloc_v2(&its, BLOCK));
    MUST(cuMemsetD8_v2(its, 1, BLOCK));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    say_all(its, NULL);
    MUST(cuCtxSetCurrent(context));
    use_blocks();
    return unused;
}

static void destroyed(void) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    MUST(cuCtxCreate_v2(&passing, 0, 0));
    MUST(cuCtxSetCurrent(context));
    pthread_create(&thread, NULL, stay, NULL);
    pthread_barrier_wait(&both);
    use_blocks();
    SAY(cuCtxDestroy_v2(passing));
    SAY(cuMemsetD8_v2(its, 0, 4));
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
}

static void poisoned(void) {
    SAY(fill(4096, 0, stream));
    SAY(cuStreamSynchronize(stream));
    say_all(block[1], stream);
    SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuDevicePrimaryCtxReset_v2(0));
    begin();
}

static void nowhere(void) {
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSetCurrent(NULL));
    say_all(block[1], NULL);
    MUST(cuCtxSetCurrent(context));
    check();
}

static void reset(void) {
    CUdeviceptr old = block[3];
    CUstream other = new_stream();
    for (int i = 0; i < BLOCKS; i++)
        MUST(fill(block[i], 1, other));
    SAY(cuDevicePrimaryCtxReset_v2(0));
    say_all(old, other);
    SAY(cuDevicePrimaryCtxRelease_v2(0));
    begin();
}

static void streams(void) {
    CUdeviceptr p[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CUstream other = new_stream();
        MUST(cuMemAlloc_v2(&p[i], BLOCK));
        for (int value = 0; value <= i; value++)
            MUST(fill(p[i], (float)value, other));
        MUST(cuStreamDestroy_v2(other));
    }
    MUST(cuCtxSynchronize());
    for (int i = 0; i < BLOCKS; i++) {
        CUstream other = new_stream();
        must_hold(p[i], (float)i);
        MUST(fill(p[i], 0, other));
        MUST(cuStreamDestroy_v2(other));
        MUST(cuMemFree_v2(p[i]));
    }
}

static CUdeviceptr left[THREADS];

static void *come_and_go(void *data) {
    CUdeviceptr *mine = data;
    float number = (float)(mine - left);
    MUST(cuCtxSetCurrent(context));
    CUstream other = new_stream();
    MUST(cuMemAlloc_v2(mine, BLOCK));
    MUST(fill(*mine, number, other));
    MUST(fill(block[mine - left], number, other));
    if (mine == left)
        MUST(cuStreamDestroy_v2(other));
    return NULL;
}

static void threads(void) {
    for (int i = 0; i < 8; i++) {
        pthread_t thread[THREADS];
        MUST(cuStreamSynchronize(stream));
        for (int k = 0; k < THREADS; k++)
            pthread_create(&thread[k], NULL, come_and_go, &left[k]);
        use_blocks();
        for (int k = 0; k < THREADS; k++)
            pthread_join(thread[k], NULL);
        MUST(cuCtxSynchronize());
        for (int k = 0; k < THREADS; k++) {
            must_hold(left[k], (float)k);
            MUST(cuMemFree_v2(left[k]));
        }
    }
}

static const struct part parts[] = {
    {"destroyed", destroyed}, {"poisoned", poisoned}, {"nowhere", nowhere}, {"reset", reset},
    {"streams", streams},     {"threads", threads},   {NULL, NULL}};

int main(int argc, char **argv) {
    int status = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin();
    for (int i = 0; i < 3 && status == 0; i++) {
        use_blocks();
        status = run_part(parts, argc, argv);
        use_blocks();
        check();
    }
    return status;
}
