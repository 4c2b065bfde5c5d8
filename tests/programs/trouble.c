/* Programs in trouble, for the backends that replace memory.
 *
 *   trouble gate      works behind a word that the host writes last, over more memory than the budget
 *   trouble gated     quick works on all of it behind such a word; "counter NAME VALUE" for the bytes of pages that
 *                     were on the device at most, and later
 *   trouble cache     an allocator that keeps what is freed, gives it back when memory is refused, and tries again
 *   trouble blind     a kernel whose arguments do not lead to what it reads still waits when a framework takes
 *                        that back
 *   trouble several  the same of a launch into several streams, which are done each at its own time
 *   trouble captures  one capture after the other while memory gets short
 *   trouble beside    works and allocates beside a thread whose captures allow nobody to wait
 *   trouble late      one thread's operation comes to the driver late, while another's memory gets short
 *   trouble frees     memory that is freed while it is written, as the driver's free waits
 *
 * Prints what it computed: the same without ulms.so. Under ulms.so "counter NAME VALUE" follows for each of its
 * counters. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "device.h"
#include "emu.h"
#include "framework.h"
#include "gate.h"
#include "part.h"

USE(cuCtxSynchronize)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyHtoD_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuModuleGetGlobal_v2)
USE(cuLaunchKernel)
USE(cuLaunchCooperativeKernelMultiDevice)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphDestroy)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, WORDS = MIB / 4, BLOCKS = 24, BLOCK_MIB = 4, STEPS = 60, KEPT = 12 };

static CUstream stream;

static void set(CUdeviceptr p, unsigned value, size_t mib) {
    MUST(cuMemsetD32Async(p, value, mib * WORDS, stream));
}

/* Ends the program where a word is not the value. */
static void expect(CUdeviceptr p, unsigned value, size_t mib) {
    static unsigned host[BLOCK_MIB * 4 * WORDS];
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(host, p, mib * MIB));
    for (size_t i = 0; i < mib * WORDS; i++)
        if (host[i] != value) {
            printf("word %zu is %x, not %x\n", i, host[i], value);
            exit(1);
        }
    printf("%zu MiB of %u\n", mib, value);
}

static CUdeviceptr block[BLOCKS];

static void allocate_block(int i) {
    MUST(cuMemAlloc_v2(&block[i], BLOCK_MIB * MIB));
}

static void allocate_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        allocate_block(i);
}

static void set_blocks(unsigned value) {
    for (int i = 0; i < BLOCKS; i++)
        set(block[i], value + (unsigned)i, BLOCK_MIB);
}

static void gate(void) {
    allocate_blocks();
    volatile unsigned *word = close_gate(stream);
    set_blocks(100);
    *word = 1;
    for (int i = 0; i < BLOCKS; i++)
        expect(block[i], 100 + (unsigned)i, BLOCK_MIB);
}

/* --- a framework takes back what a kernel still reads --- */

/* peek(out): a word of what the module's variable points to */
static void peek(struct emu_launch *l) {
    const uint64_t *variable = emu_use(l, emu_variable(l, "hidden"), sizeof *variable, EMU_READ);
    const unsigned *from = emu_use(l, *variable, BLOCK_MIB * MIB, EMU_READ);
    unsigned *to = emu_use(l, EMU_ARG(l, uint64_t, 0), sizeof *to, EMU_WRITE);
    *to = from[BLOCK_MIB * WORDS / 2];
}

/* look(from, to) */
static void look(struct emu_launch *l) {
    const unsigned *from = emu_use(l, EMU_ARG(l, uint64_t, 0), BLOCK_MIB * MIB, EMU_READ);
    unsigned *to = emu_use(l, EMU_ARG(l, uint64_t, 1), sizeof *to, EMU_WRITE);
    *to = from[BLOCK_MIB * WORDS / 2];
}

static const struct emu_param look_parameters[] = {{0, sizeof(uint64_t)}, {sizeof(uint64_t), sizeof(uint64_t)}};
static const struct emu_param peek_parameters[] = {{0, sizeof(uint64_t)}};
static const struct emu_kernel kernels[] = {{"peek", peek_parameters, 1, peek}, {"look", look_parameters, 2, look}};
static const struct emu_variable variables[] = {{"hidden", sizeof(uint64_t), NULL}};
static const struct emu_image image = {EMU_MAGIC, kernels, 2, variables, 1};

/* A kernel in another stream that reads a block of the framework's, and says a word of it. */
struct reading {
    CUmodule module;
    CUfunction function;
    CUstream other;
    volatile unsigned *gate; /* of that stream */
    CUdeviceptr tensor, out;
};

static struct reading reading_new(const char *kernel) {
    struct reading r = {.other = new_stream()};
    MUST(cuModuleLoadData(&r.module, &image));
    MUST(cuModuleGetFunction(&r.function, r.module, kernel));
    MUST(cuMemAlloc_v2(&r.out, sizeof(unsigned)));
    MUST(cuMemAlloc_v2(&r.tensor, BLOCK_MIB * MIB));
    return r;
}

/* The block is given out among much else, and the gate closed: the kernel is to be launched. */
static void reading_begin(struct reading *r, unsigned value) {
    allocate_blocks();
    set_blocks(0);
    report(r->tensor, BLOCK_MIB * MIB);
    set(r->tensor, value, BLOCK_MIB);
    MUST(cuStreamSynchronize(stream));
    r->gate = close_gate(r->other);
}

/* The block is taken back, much else used, and the gate opened. */
static void reading_end(const struct reading *r) {
    unsigned found;
    report(r->tensor, -BLOCK_MIB * MIB);
    for (unsigned i = 1; i < 3; i++) {
        set_blocks(i);
        MUST(cuStreamSynchronize(stream));
        usleep(20000); /* what has been done is known soon after */
    }
    *r->gate = 1;
    MUST(cuStreamSynchronize(r->other));
    MUST(cuMemcpyDtoH_v2(&found, r->out, sizeof found));
    printf("found %u\n", found);
}

static void gated(void) {
    struct reading r = reading_new("look");
    unsigned long long pages = 0;
    reading_begin(&r, 78);
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuLaunchKernel(r.function, 1, 1, 1, 1, 1, 1, 0, r.other, (void *[]){&block[i], &r.out}, NULL));
    *r.gate = 1;
    MUST(cuStreamSynchronize(r.other));
    printf("counter pages_peak %llu\n", (unsigned long long)emu_pages_peak(0));
    for (int i = 0; i < BLOCKS; i++)
        expect(block[i], (unsigned)i, BLOCK_MIB);
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < BLOCK_MIB * MIB; at += 2 * MIB)
            pages += emu_page(block[i] + at) == 0;
    printf("counter pages_now %llu\n", pages * 2 * MIB);
}

static void blind(void) {
    struct reading r = reading_new("peek");
    CUdeviceptr variable;
    size_t bytes;
    MUST(cuModuleGetGlobal_v2(&variable, &bytes, r.module, "hidden"));
    MUST(cuMemcpyHtoD_v2(variable, &r.tensor, sizeof r.tensor));
    reading_begin(&r, 78);
    MUST(cuLaunchKernel(r.function, 1, 1, 1, 1, 1, 1, 0, r.other, (void *[]){&r.out}, NULL));
    reading_end(&r);
}

static void several(void) {
    enum { NO_WAIT_AFTER = 2 };
    struct reading r = reading_new("look");
    CUdeviceptr unused;
    MUST(cuMemAlloc_v2(&unused, sizeof(unsigned)));
    reading_begin(&r, 79);
    void *here[] = {&r.tensor, &unused}, *there[] = {&r.tensor, &r.out};
    CUDA_LAUNCH_PARAMS launches[] = {{r.function, 1, 1, 1, 1, 1, 1, .hStream = stream, .kernelParams = here},
                                     {r.function, 1, 1, 1, 1, 1, 1, .hStream = r.other, .kernelParams = there}};
    MUST(cuLaunchCooperativeKernelMultiDevice(launches, 2, NO_WAIT_AFTER));
    reading_end(&r);
}

/* --- captures --- */

static void captures(void) {
    CUstream captured;
    MUST(cuStreamCreate(&captured, CU_STREAM_DEFAULT));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemAlloc_v2(&block[i], BLOCK_MIB * MIB));
        for (int k = 0; k < 1000; k++) {
            CUgraph graph;
            MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
            MUST(cuStreamEndCapture(captured, &graph));
            MUST(cuGraphDestroy(graph));
        }
    }
    printf("captured\n");
}

static CUcontext context;
static atomic_bool captured_enough;

static void *capture_always(void *unused) {
    MUST(cuCtxSetCurrent(context));
    CUstream captured = new_stream();
    while (!captured_enough) {
        CUgraph graph;
        MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
        usleep(2000);
        MUST(cuStreamEndCapture(captured, &graph));
        MUST(cuGraphDestroy(graph));
        usleep(1000);
    }
    return unused;
}

/* None of its calls beside the captures is one that they forbid. */
static void beside(void) {
    pthread_t other;
    CUdeviceptr p;
    allocate_blocks();
    if (pthread_create(&other, NULL, capture_always, NULL))
        exit(1);
    for (unsigned step = 0; step < 10; step++) {
        set_blocks(step);
        MUST(cuMemAllocAsync(&p, BLOCK_MIB * MIB, stream));
        set(p, step, BLOCK_MIB);
        MUST(cuMemFreeAsync(p, stream));
        MUST(cuStreamSynchronize(stream));
    }
    captured_enough = true;
    pthread_join(other, NULL);
    for (int i = 0; i < BLOCKS; i++)
        expect(block[i], 9 + (unsigned)i, BLOCK_MIB);
}

/* --- a caching allocator --- */

struct tensor {
    CUdeviceptr start;
    size_t mib;
    unsigned value;
};

static struct tensor cached[STEPS], live[KEPT];
static int cached_count, live_count, refused;

static CUdeviceptr from_cache(size_t mib) {
    for (int i = 0; i < cached_count; i++)
        if (cached[i].mib == mib) {
            CUdeviceptr p = cached[i].start;
            cached[i] = cached[--cached_count];
            return p;
        }
    return 0;
}

static void drop_oldest(void) {
    struct tensor t = live[0];
    memmove(live, live + 1, (size_t)--live_count * sizeof *live);
    expect(t.start, t.value, t.mib);
    cached[cached_count++] = t;
}

static void empty_cache(void) {
    MUST(cuCtxSynchronize());
    for (int i = 0; i < cached_count; i++)
        MUST(i % 2 ? cuMemFree_v2(cached[i].start) : cuMemFreeAsync(cached[i].start, stream));
    cached_count = 0;
    MUST(cuStreamSynchronize(stream));
}

static CUdeviceptr take(size_t mib) {
    CUdeviceptr p = from_cache(mib);
    CUresult status = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int tries = 0; status == CUDA_ERROR_OUT_OF_MEMORY; tries++) {
        if (tries > 0) {
            refused++;
            if (cached_count == 0)
                drop_oldest();
            empty_cache();
        }
        status = mib % 4 ? cuMemAllocAsync(&p, mib * MIB, stream) : cuMemAlloc_v2(&p, mib * MIB);
    }
    MUST(status);
    return p;
}

static void cache(void) {
    for (unsigned step = 0; step < STEPS; step++) {
        size_t mib = 2 + 2 * (step * 5 % 7);
        struct tensor t = {take(mib), mib, step};
        set(t.start, step, mib);
        if (live_count == KEPT)
            drop_oldest();
        live[live_count++] = t;
    }
    while (live_count)
        drop_oldest();
    printf("refused: %s\n", refused ? "yes" : "no");
}

/* --- a call that is under way when moving begins --- */

static int waited; /* for the other thread's operation, before anything made room for ours */

static void *issue(void *unused) {
    MUST(cuCtxSetCurrent(context));
    set(block[0], 7, BLOCK_MIB);
    return unused;
}

/* Which operation set it, as the driver got them. */
static uint64_t setter_of(CUdeviceptr p) {
    static struct emu_touch touches[1024];
    size_t n = emu_log_read(0, touches, 1024);
    for (size_t i = 0; i < n && i < 1024; i++)
        if (touches[i].address == p && strcmp(touches[i].name, "memset") == 0)
            return touches[i].operation;
    printf("nothing set %llx\n", (unsigned long long)p);
    exit(1);
}

static void late(void) {
    pthread_t other;
    allocate_block(0);
    emu_log(1);
    emu_fail("cuMemsetD32Async:delay=500");
    if (pthread_create(&other, NULL, issue, NULL))
        exit(1);
    while (emu_calls("cuMemsetD32Async") == 0)
        sched_yield();
    for (int i = 1; i < BLOCKS; i++)
        allocate_block(i);
    set(block[BLOCKS - 1], 8, BLOCK_MIB);
    pthread_join(other, NULL);
    MUST(cuStreamSynchronize(stream));
    waited = setter_of(block[0]) < setter_of(block[BLOCKS - 1]);
    expect(block[0], 7, BLOCK_MIB);
    expect(block[BLOCKS - 1], 8, BLOCK_MIB);
}

static void frees(void) {
    for (int i = 0; i < 4; i++) {
        allocate_block(i);
        for (unsigned n = 0; n < 50; n++)
            set(block[i], n, BLOCK_MIB);
        MUST(cuMemFree_v2(block[i]));
    }
    MUST(cuStreamSynchronize(stream));
}

static const struct part parts[] = {
    {"gate", gate},         {"gated", gated},   {"cache", cache}, {"blind", blind}, {"several", several},
    {"captures", captures}, {"beside", beside}, {"late", late},   {"frees", frees}, {NULL, NULL}};

int main(int argc, char **argv) {
    bool counted = print_counters_at_exit();
    context = use_device();
    stream = new_stream();
    int status = run_part(parts, argc, argv);
    if (counted)
        printf("counter waited %d\n", waited);
    return status;
}
