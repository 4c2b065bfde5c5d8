/* The program itself holds the device back: what would let it go on is what its main thread does after operations whose
 * memory is not there, or after an allocation. None of them waits natively.
 *
 *   held_back word        a word that the host writes
 *   held_back host        a host function
 *   held_back callback    a callback of a stream
 *   held_back event       another stream, which waits for an event behind a word
 *   held_back graph       a graph with a host function
 *   held_back captured    a graph that was captured, with a word
 *   held_back list        a list of words, one of which is written before the other is waited for
 *   held_back thread      a word that another thread writes once it is told to
 *   held_back copy        a copy of pageable memory, which another thread waits for at a word
 *   held_back allocation  the same beside an allocation
 *   held_back freed       the same beside a free in stream order
 *   held_back kernel      a kernel that looks at pinned memory
 *   held_back ordered     the copy behind such a kernel, beside an allocation in stream order
 *   held_back left        the program ends while the copy waits, and nobody opens the gate
 *   held_back rounds      a word, a host function and a callback in turns, and again and again
 *
 * Prints what it computed, and then how many milliseconds it took from the first gate on. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "emu.h"
#include "gate.h"
#include "part.h"

USE(cuCtxSynchronize)
USE(cuEventCreate)
USE(cuEventRecord)
USE(cuGraphAddHostNode)
USE(cuGraphCreate)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuLaunchHostFunc)
USE(cuLaunchKernel)
USE(cuMemAllocAsync)
USE(cuMemAlloc_v2)
USE(cuMemFreeAsync)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyHtoDAsync_v2)
USE(cuMemsetD32Async)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamAddCallback)
USE(cuStreamBatchMemOp_v2)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuStreamSynchronize)
USE(cuStreamWaitEvent)

enum { MIB = 1 << 20, BLOCKS = 12, BLOCK = 4 * MIB, ROUNDS = 40, MOMENT_US = 200000 };

static CUcontext context;
static CUstream stream, other;
static CUdeviceptr block[BLOCKS];
static struct timespec began;

static void begin(void) {
    clock_gettime(CLOCK_MONOTONIC, &began);
}

static double elapsed_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) * 1e3 + (double)(now.tv_nsec - began.tv_nsec) * 1e-6;
}

static void set_blocks(unsigned value, CUstream s) {
    for (unsigned i = 0; i < BLOCKS; i++)
        MUST(cuMemsetD32Async(block[i], value + i, BLOCK / sizeof value, s));
}

static void expect_blocks(unsigned value) {
    unsigned got;
    MUST(cuCtxSynchronize());
    for (unsigned i = 0; i < BLOCKS; i++) {
        MUST(cuMemcpyDtoH_v2(&got, block[i] + BLOCK / 2, sizeof got));
        if (got != value + i) {
            printf("block %u holds %u, not %u\n", i, got, value + i);
            exit(1);
        }
    }
}

/* --- host functions --- */

static atomic_bool open_now;

static void wait_until_open(void *unused) {
    (void)unused;
    while (!open_now)
        usleep(100);
}

static void called_back(CUstream s, CUresult status, void *unused) {
    (void)s;
    (void)status;
    wait_until_open(unused);
}

static void word(void) {
    volatile unsigned *gate = close_gate(stream);
    set_blocks(10, stream);
    *gate = 1;
}

static void host(void) {
    open_now = false;
    MUST(cuLaunchHostFunc(stream, wait_until_open, NULL));
    set_blocks(10, stream);
    open_now = true;
}

static void callback(void) {
    open_now = false;
    MUST(cuStreamAddCallback(stream, called_back, NULL, 0));
    set_blocks(10, stream);
    open_now = true;
}

static void event(void) {
    CUevent behind;
    MUST(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    volatile unsigned *gate = close_gate(other);
    MUST(cuEventRecord(behind, other));
    MUST(cuStreamWaitEvent(stream, behind, 0));
    set_blocks(10, stream);
    *gate = 1;
}

static void graph(void) {
    CUgraph made;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_HOST_NODE_PARAMS waits = {.fn = wait_until_open};
    MUST(cuGraphCreate(&made, 0));
    MUST(cuGraphAddHostNode(&node, made, NULL, 0, &waits));
    MUST(cuGraphInstantiateWithFlags(&exec, made, 0));
    open_now = false;
    MUST(cuGraphLaunch(exec, stream));
    set_blocks(10, stream);
    open_now = true;
}

static void captured(void) {
    CUgraph made;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    volatile unsigned *gate = close_gate(stream);
    MUST(cuStreamEndCapture(stream, &made));
    MUST(cuGraphInstantiateWithFlags(&exec, made, 0));
    MUST(cuGraphLaunch(exec, stream));
    set_blocks(10, stream);
    *gate = 1;
}

static void list(void) {
    unsigned *gate, *said;
    MUST(cuMemHostAlloc((void **)&gate, sizeof *gate, 0));
    MUST(cuMemHostAlloc((void **)&said, sizeof *said, 0));
    *gate = 0;
    CUstreamBatchMemOpParams words[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = (CUdeviceptr)(uintptr_t)said}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = (CUdeviceptr)(uintptr_t)gate,
                       .value = 1,
                       .flags = CU_STREAM_WAIT_VALUE_GEQ}}};
    MUST(cuStreamBatchMemOp_v2(stream, 2, words, 0));
    set_blocks(10, stream);
    *(volatile unsigned *)gate = 1;
}

/* --- threads --- */

static volatile unsigned *gate_of_thread;

static void *open_when_told(void *unused) {
    wait_until_open(unused);
    *gate_of_thread = 1;
    return unused;
}

static void thread(void) {
    pthread_t opener;
    open_now = false;
    gate_of_thread = close_gate(stream);
    pthread_create(&opener, NULL, open_when_told, NULL);
    set_blocks(10, stream);
    open_now = true;
    pthread_join(opener, NULL);
}

static CUdeviceptr target;

static void *copies(void *unused) {
    void *pageable = calloc(1, BLOCK);
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemcpyHtoDAsync_v2(target, pageable, BLOCK, other));
    free(pageable);
    return unused;
}

/* While `other` is at a gate a thread copies into it, and waits. */
static void beside_copy(void (*what)(void)) {
    pthread_t copier;
    volatile unsigned *gate = close_gate(other);
    pthread_create(&copier, NULL, copies, NULL);
    usleep(MOMENT_US);
    what();
    *gate = 1;
    pthread_join(copier, NULL);
}

static void set_all(void) {
    set_blocks(10, stream);
}

static void copy(void) {
    beside_copy(set_all);
}

static void allocate(void) {
    CUdeviceptr p, q;
    MUST(cuMemAlloc_v2(&p, BLOCK));
    MUST(cuMemAllocAsync(&q, BLOCK, stream));
    set_blocks(10, stream);
}

static void allocation(void) {
    beside_copy(allocate);
}

static void free_some(void) {
    CUdeviceptr p[4];
    for (int i = 0; i < 4; i++)
        MUST(cuMemAllocAsync(&p[i], BLOCK, stream));
    set_blocks(10, stream);
    for (int i = 0; i < 4; i++)
        MUST(cuMemFreeAsync(p[i], stream));
    MUST(cuStreamSynchronize(stream));
}

static void freed(void) {
    beside_copy(free_some);
}

/* The bytes are on their way at the end. */
static void leave(void) {
    set_blocks(10, stream);
    printf("left\n");
    exit(0);
}

static void left(void) {
    beside_copy(leave);
}

/* --- a kernel that nobody knows to wait --- */

static void look(struct emu_launch *l) {
    const volatile unsigned *flag = (const volatile unsigned *)EMU_ARG(l, uint64_t, 0);
    while (!*flag)
        usleep(100);
}

static const struct emu_param parameters[] = {{0, sizeof(uint64_t)}};
static const struct emu_kernel kernels[] = {{"look", parameters, 1, look}};
static const struct emu_image image = {EMU_MAGIC, kernels, 1, NULL, 0};

/* It runs until what is answered is no longer 0. */
static volatile unsigned *launch_look(CUstream s) {
    static CUfunction function;
    static unsigned *flag;
    CUmodule module;
    if (!function) {
        MUST(cuModuleLoadData(&module, &image));
        MUST(cuModuleGetFunction(&function, module, "look"));
        MUST(cuMemHostAlloc((void **)&flag, sizeof *flag, 0));
    }
    *flag = 0;
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&flag}, NULL));
    return flag;
}

static void kernel(void) {
    for (int i = 0; i < 3; i++) {
        volatile unsigned *flag = launch_look(stream);
        set_blocks(10, stream);
        *flag = 1;
        MUST(cuStreamSynchronize(stream));
    }
}

static void ordered(void) {
    pthread_t copier;
    CUdeviceptr p;
    volatile unsigned *flag = launch_look(other);
    pthread_create(&copier, NULL, copies, NULL);
    usleep(MOMENT_US);
    MUST(cuMemAllocAsync(&p, BLOCK, stream));
    *flag = 1;
    pthread_join(copier, NULL);
    set_blocks(10, stream);
}

static void rounds(void) {
    static void (*const kinds[])(void) = {word, host, callback, event};
    for (int i = 0; i < ROUNDS; i++) {
        kinds[i % 4]();
        MUST(cuStreamSynchronize(stream));
    }
}

static const struct part parts[] = {{"word", word},         {"host", host},
                                    {"callback", callback}, {"event", event},
                                    {"graph", graph},       {"captured", captured},
                                    {"list", list},         {"thread", thread},
                                    {"copy", copy},         {"allocation", allocation},
                                    {"freed", freed},       {"kernel", kernel},
                                    {"left", left},         {"rounds", rounds},
                                    {"ordered", ordered},   {NULL, NULL}};

int main(int argc, char **argv) {
    context = use_device();
    stream = new_stream();
    other = new_stream();
    MUST(cuMemAlloc_v2(&target, BLOCK));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    set_blocks(0, stream);
    expect_blocks(0);
    begin();
    int status = run_part(parts, argc, argv);
    double ms = elapsed_ms();
    expect_blocks(10);
    printf("right\n%.1f ms\n", ms);
    return status;
}
