/* Memory that the program has freed, and that cannot be given back yet. Lines that begin with "is" tell how the driver
 * holds the memory; all others must be the same without ulms.so. */
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "emu.h"
#include "gate.h"
#include "part.h"
#include "patience.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSynchronize)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemsetD8Async)

enum { MIB = 1 << 20, BLOCK = 64 * MIB, PATIENCE_S = 60 };

static CUcontext context;
static CUstream stream;

static void free_in_capture(CUdeviceptr p, CUstream captured) {
    CUgraph graph;
    MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemFree_v2(p));
    MUST(cuStreamEndCapture(captured, &graph));
}

/* 150 MiB, which are used and freed in a capture. */
static void come_and_go_captured(CUstream captured) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, 150 * MIB));
    MUST(cuMemsetD8Async(p, 1, 150 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    free_in_capture(p, captured);
}

/* What fits is there again though it was freed during captures, and only streams are waited for since. */
static void again(void) {
    CUstream captured = new_stream();
    for (int i = 0; i < 6; i++) {
        come_and_go_captured(captured);
        MUST(cuStreamSynchronize(stream));
    }
}

/* A free of nothing waits for nothing, whatever was freed before. */
static void nothing(void) {
    CUdeviceptr p, q;
    CUstream captured = new_stream();
    MUST(cuMemAlloc_v2(&p, 32 * MIB));
    MUST(cuMemAllocAsync(&q, 32 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    free_in_capture(p, captured);
    volatile unsigned *word = close_gate(new_stream());
    MUST(cuMemFreeAsync(q, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemFree_v2(0));
    *word = 1;
    MUST(cuCtxSynchronize());
}

/* --- sizes of which no two are alike --- */

static void come_and_go(int i, uint64_t bytes, uint64_t used) {
    CUdeviceptr p;
    CUresult status = cuMemAllocAsync(&p, bytes + i * 2ull * MIB, stream);
    if (status != CUDA_SUCCESS) {
        printf("is refused: %d\n", (int)status);
        return;
    }
    MUST(cuMemsetD8Async(p, 1, used, stream));
    MUST(cuMemFreeAsync(p, stream));
}

/* More than there is memory on the host, beside a stream that is held up by what the program does last. */
static void beyond(void) {
    uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), each = host / 16;
    volatile unsigned *word = close_gate(new_stream());
    for (int i = 0; i < 24; i++) {
        come_and_go(i, each, MIB);
        MUST(cuStreamSynchronize(stream));
    }
    *word = 1;
    MUST(cuCtxSynchronize());
}

/* The same, until one is refused. */
static void held_up(void) {
    close_gate(new_stream());
    for (int i = 0; i < 4; i++) {
        come_and_go(i, 16 * MIB, MIB);
        MUST(cuStreamSynchronize(stream));
    }
    printf("done\n");
    fflush(stdout);
    _exit(0);
}

/* Nobody waits. */
static void ahead(void) {
    for (int i = 0; i < 24; i++)
        come_and_go(i, 16 * MIB, 16 * MIB);
    MUST(cuStreamSynchronize(stream));
}

/* While pages move, for longer than it takes until the device is asked again what is free. */
static void busy(void) {
    enum { ROUNDS = 24, MADE = 9, KEPT = 4 };
    CUdeviceptr p[MADE];
    for (int i = 0; i < MADE; i++) {
        MUST(cuMemAlloc_v2(&p[i], BLOCK));
        MUST(cuMemsetD8Async(p[i], 1, BLOCK, stream));
    }
    for (int i = KEPT; i < MADE; i++)
        MUST(cuMemFree_v2(p[i]));
    volatile unsigned *word = close_gate(new_stream());
    for (int i = 0; i < ROUNDS; i++) {
        come_and_go(i, 16 * MIB, 16 * MIB);
        MUST(cuMemsetD8Async(p[i % KEPT], 1, BLOCK, stream));
        MUST(cuStreamSynchronize(stream));
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    *word = 1;
    MUST(cuCtxSynchronize());
}

/* What waits is not of the context that is current. */
static void asked(void) {
    enum { MANY = 6 };
    CUcontext other;
    CUdeviceptr p[MANY];
    for (int i = 0; i < MANY; i++)
        MUST(cuMemAllocAsync(&p[i], BLOCK, stream));
    MUST(cuStreamSynchronize(stream));
    for (int i = 0; i < MANY; i++)
        MUST(cuMemFreeAsync(p[i], stream));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUstream its = new_stream();
    uint64_t before = emu_calls("cuCtxRecordEvent");
    for (int i = 0; i < 1000; i++)
        MUST(cuStreamSynchronize(its));
    printf("is asked %d times\n", (int)(emu_calls("cuCtxRecordEvent") - before));
}

/* The context of the stream that freed goes first. */
static void orphaned(void) {
    CUcontext other;
    CUdeviceptr p;
    MUST(cuMemAllocAsync(&p, 32 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    MUST(cuMemFreeAsync(p, new_stream()));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    MUST(cuCtxSynchronize());
    bool there = emu_mapped(p) || emu_page(p) != EMU_UNKNOWN;
    printf("is %sthere\n", there ? "" : "not ");
}

static volatile unsigned *gate;

static void begin(pthread_t *thread, void *(*run)(void *), void *given) {
    if (pthread_create(thread, NULL, run, given))
        _exit(1);
}

static void *destroy_then_open(void *destroyed) {
    sleep(1); /* until the other thread waits; it need not */
    MUST(cuCtxDestroy_v2(destroyed));
    *gate = 1;
    return NULL;
}

/* An allocation waits for what was freed behind a gate, which opens once another context is gone. */
static void beside(void) {
    CUcontext other;
    CUdeviceptr p;
    pthread_t thread;
    MUST(cuCtxCreate_v2(&other, 0, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAllocAsync(&p, 50 * MIB, stream));
    gate = close_gate(stream);
    MUST(cuMemsetD8Async(p, 1, 50 * MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    begin(&thread, destroy_then_open, other);
    MUST(cuMemAllocAsync(&p, 45 * MIB, stream));
    pthread_join(thread, NULL);
    MUST(cuStreamSynchronize(stream));
}

/* --- a clock that hurries, also for ulms.so. Trap: where it jumps the process is taken for one that was stopped --- */

enum { HURRY = 30 };
static volatile uint64_t hurries_from_ns, hurries_until_ns; /* 0: not yet */

static uint64_t true_ns(clockid_t id, int *status) {
    struct timespec t = {0};
    *status = (int)syscall(SYS_clock_gettime, id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int clock_gettime(clockid_t id, struct timespec *t) {
    int status;
    uint64_t now = true_ns(id, &status), from = hurries_from_ns, until = hurries_until_ns;
    if (id == CLOCK_MONOTONIC && from && now > from)
        now += ((until ? until : now) - from) * HURRY;
    t->tv_sec = (time_t)(now / 1000000000u);
    t->tv_nsec = (long)(now % 1000000000u);
    return status;
}

static void *hurry(void *unused) {
    int status;
    sleep(1);
    hurries_from_ns = true_ns(CLOCK_MONOTONIC, &status);
    return unused;
}

/* A last use that waits for what the program does behind the next allocation. */
static void own(void) {
    CUdeviceptr p, q;
    int status;
    pthread_t thread;
    MUST(cuMemAllocAsync(&p, 50 * MIB, stream));
    gate = close_gate(stream);
    MUST(cuMemsetD8Async(p, 1, 50 * MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    begin(&thread, hurry, NULL);
    printf("is answered %d\n", (int)cuMemAlloc_v2(&q, 45 * MIB));
    *gate = 1;
    pthread_join(thread, NULL);
    hurries_until_ns = true_ns(CLOCK_MONOTONIC, &status);
    MUST(cuStreamSynchronize(stream));
}

/* --- a context that goes while an allocation of another thread waits --- */

static void *destroy(void *destroyed) {
    MUST(cuCtxDestroy_v2(destroyed));
    return NULL;
}

static void *open_later(void *unused) {
    usleep(400000);
    *gate = 1;
    return unused;
}

/* The event behind a last use is asked no more while its context is being destroyed. */
static void leaves(void) {
    CUcontext other;
    CUdeviceptr p, q;
    pthread_t thread[2];
    MUST(cuMemAllocAsync(&p, 50 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUstream its = new_stream();
    gate = close_gate(its);
    MUST(cuMemFreeAsync(p, its));
    MUST(cuCtxSetCurrent(context));
    emu_fail("cuCtxDestroy:delay=600");
    begin(&thread[0], destroy, other);
    begin(&thread[1], open_later, NULL);
    usleep(100000); /* until the context is being destroyed */
    uint64_t before = emu_calls("cuEventQuery");
    MUST(cuMemAlloc_v2(&q, 45 * MIB));
    uint64_t asked = emu_calls("cuEventQuery") - before;
    printf("is asked %s times\n", asked < 200 ? "few" : "many");
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
}

static volatile unsigned *its_gate;

static void *open_both(void *destroyed) {
    usleep(700000); /* until the allocation waits */
    MUST(cuCtxSetCurrent(destroyed));
    *its_gate = 1;
    MUST(cuCtxSynchronize());
    MUST(cuCtxDestroy_v2(destroyed));
    *gate = 1;
    return NULL;
}

/* What was freed during captures, of two contexts, of which one goes while an allocation waits for the other. */
static void left(void) {
    CUcontext other;
    CUdeviceptr p, q;
    pthread_t thread;
    MUST(cuCtxCreate_v2(&other, 0, 0));
    CUstream its = new_stream(), captured = new_stream();
    MUST(cuMemAlloc_v2(&p, 150 * MIB));
    free_in_capture(p, captured);
    its_gate = close_gate(its);
    MUST(cuCtxSetCurrent(context));
    come_and_go_captured(new_stream());
    gate = close_gate(stream);
    begin(&thread, open_both, other);
    CUresult status = cuMemAlloc_v2(&q, 200 * MIB);
    pthread_join(thread, NULL);
    MUST(cuCtxSynchronize());
    if (status == CUDA_SUCCESS)
        MUST(cuMemFree_v2(q));
    bool there = emu_mapped(p) || emu_page(p) != EMU_UNKNOWN;
    printf("is %sthere\n", there ? "" : "not ");
}

/* What was freed during a capture lies behind a gate that opens after the next allocation, for which it is needed. */
static void gated(void) {
    CUdeviceptr p;
    CUstream captured = new_stream();
    for (int i = 0; i < 2; i++)
        come_and_go_captured(captured);
    gate = close_gate(stream);
    printf("is answered %d\n", (int)cuMemAlloc_v2(&p, 225 * MIB));
    *gate = 1;
    MUST(cuStreamSynchronize(stream));
}

static const struct part parts[] = {
    {"again", again}, {"nothing", nothing}, {"beyond", beyond},     {"held up", held_up}, {"ahead", ahead},
    {"busy", busy},   {"asked", asked},     {"orphaned", orphaned}, {"beside", beside},   {"gated", gated},
    {"own", own},     {"leaves", leaves},   {"left", left},         {NULL, NULL}};

int main(int argc, char **argv) {
    end_after(PATIENCE_S);
    context = use_device();
    stream = new_stream();
    int status = run_part(parts, argc, argv);
    printf("done\n");
    return status;
}
