/* What calls cost in a program that does something else between them, with the processor's caches swept before each:
 * cold_main TIMES. Prints a line a call: its name, and nanoseconds, the median over TIMES. To be run under ulms.so and
 * without it: library calls launch a kernel each, which is hooked, too. */
#include "library_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"
#include "emu.h"
#include "sweep.h"

#define USES(X)                                                                                                        \
    X(cuInit)                                                                                                          \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemHostGetDevicePointer_v2)                                                                                    \
    X(cuStreamWaitValue32_v2)                                                                                          \
    X(cuStreamSynchronize)                                                                                             \
    X(cuPointerGetAttribute)                                                                                           \
    X(cuLaunchKernel)
#define X(f) extern __typeof__(*(pfn_##f)NULL) f;
USES(X)
#undef X

enum { CUDA_DEVICE_0 = 1, QUEUE = 200 /* fewer than the device's queue holds */ };

#define TELL _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
__attribute__((weak)) void TELL(CUdeviceptr, int64_t, size_t, size_t, int16_t);

extern const struct emu_image bench_image;
void bench_arguments(CUdeviceptr base, unsigned long blocks);
void bench_rewrite(unsigned i);
void **bench_set(unsigned i);

static CUdeviceptr base;
static CUfunction twelve;
static struct operands sets[SETS];
static const struct bench_call *product;

void check(int status) {
    if (status) {
        fprintf(stderr, "status %d\n", status);
        exit(1);
    }
}

void *hooked(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    check(function == NULL);
    return function;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static void call_launch(void **arguments) {
    check((int)cuLaunchKernel(twelve, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

static double launch(unsigned i) {
    bench_rewrite(i); /* the program has just written the arguments that it gives */
    double from = now_ns();
    call_launch(bench_set(i));
    return now_ns() - from;
}

__attribute__((noinline)) static void call_question(CUdeviceptr address) {
    CUdeviceptr answer;
    check((int)cuPointerGetAttribute(&answer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address));
}

static double question(unsigned i) {
    double from = now_ns();
    call_question(base + (CUdeviceptr)(i % SETS) * BLOCK);
    return now_ns() - from;
}

__attribute__((noinline)) static void call_tell(CUdeviceptr start, int64_t bytes) {
    if (TELL)
        TELL(start, bytes, 0, 0, CUDA_DEVICE_0);
}

static double tell(unsigned i, int64_t bytes) {
    double from = now_ns();
    call_tell(base + (CUdeviceptr)(i % SETS) * BLOCK, bytes);
    return now_ns() - from;
}

/* Taken back and told again. */
static double block(unsigned i) {
    double took = tell(i, -BLOCK);
    sweep();
    return took + tell(i, BLOCK);
}

static double library(unsigned i) {
    static void *function;
    static const struct bench_call *of;
    if (of != product)
        function = hooked(product->name);
    of = product;
    double from = now_ns();
    product->run(function, &sets[i % SETS]);
    return now_ns() - from;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The device waits behind a closed gate meanwhile: it would take a processor and locks. */
static void measure(const char *name, double (*call)(unsigned), unsigned times) {
    static uint32_t *gate, passed;
    CUdeviceptr gate_address;
    double *took = malloc(times * sizeof *took);
    if (!gate)
        check((int)cuMemHostAlloc((void **)&gate, sizeof *gate, CU_MEMHOSTALLOC_DEVICEMAP));
    check((int)cuMemHostGetDevicePointer_v2(&gate_address, gate, 0));
    for (unsigned i = 0; i < times; i++) {
        if (i % QUEUE == 0)
            check((int)cuStreamWaitValue32_v2(NULL, gate_address, ++passed, CU_STREAM_WAIT_VALUE_GEQ));
        sweep();
        took[i] = call(i);
        if (i % QUEUE == QUEUE - 1 || i + 1 == times) {
            __atomic_store_n(gate, passed, __ATOMIC_RELEASE);
            check((int)cuStreamSynchronize(NULL));
        }
    }
    qsort(took, times, sizeof *took, ascending);
    printf("%s %.0f\n", name, took[times / 2]);
    free(took);
}

static void start(void) {
    CUcontext context;
    CUmodule module;
    check((int)cuInit(0));
    check((int)cuDevicePrimaryCtxRetain(&context, 0));
    check((int)cuCtxSetCurrent(context));
    check((int)cuModuleLoadData(&module, &bench_image));
    check((int)cuModuleGetFunction(&twelve, module, "twelve"));
    check((int)cuMemAlloc_v2(&base, (size_t)BLOCKS * BLOCK));
    for (size_t i = 0; TELL && i < BLOCKS; i++)
        TELL(base + i * BLOCK, BLOCK, 0, 0, CUDA_DEVICE_0);
    bench_arguments(base, BLOCKS);
    for (int s = 0; s < SETS; s++)
        for (int o = 0; o < OPERANDS; o++)
            sets[s].at[o] = (void *)(uintptr_t)(base + (CUdeviceptr)(rand() % BLOCKS) * BLOCK);
}

static const struct bench_call *products;

/* callgrind counts from here on. */
__attribute__((noinline)) static void measure_all(unsigned times) {
    measure("launch", launch, times);
    measure("question", question, times);
    measure("block", block, times);
    for (product = products; product->name; product++)
        measure(product->name, library, times);
}

/* Every argument once: a program's launches touch what they touched before. */
static void warm_up(void) {
    for (unsigned i = 0; i < SETS; i++)
        launch(i), question(i), block(i);
    for (product = products; product->name; product++)
        for (unsigned i = 0; i < SETS; i++)
            library(i);
    check((int)cuStreamSynchronize(NULL));
}

int main(int argc, char **argv) {
    unsigned times = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    start();
    products = blas_calls(sets);
    warm_up();
    measure_all(times);
    return 0;
}
