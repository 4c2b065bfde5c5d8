/* What hooked calls of cuBLAS and cuDNN cost, for library_cost.py. Linked against the look-alikes, with ulms.so beside
 * them and not in front: linked functions are the unhooked ones, and ulms.so's dlsym gives the hooked.
 *
 *     library_main ULMS time ROUNDS     one line a call: its name, ns unhooked, ns hooked
 *     library_main ULMS plain|hooked N  makes each call N times, inside counted(), for callgrind
 *
 * A time is the least of the medians that ROUNDS rounds, unhooked and hooked in turn, measure: others use the machine,
 * too. */
#define _GNU_SOURCE
#include "library_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

enum { BATCH = 256, BATCHES = 9, CALLS_MAX = 16, CUDA_DEVICE_0 = 1 };

static void *(*look_up)(void *, const char *);
static void *ulms;
static struct operands sets[SETS];

void check(int status) {
    if (status) {
        fprintf(stderr, "status %d\n", status);
        exit(1);
    }
}

static void *found(void *function, const char *name) {
    if (!function) {
        fprintf(stderr, "%s: not found\n", name);
        exit(1);
    }
    return function;
}

void *hooked(const char *name) {
    return found(look_up(RTLD_DEFAULT, name), name);
}

static void start(const char *library) {
    static const char tell_name[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
    CUcontext context;
    CUdeviceptr base;
    ulms = found(dlopen(library, RTLD_NOW), library);
    look_up = (__typeof__(look_up))found(dlsym(ulms, "dlsym"), "dlsym");
    check(((pfn_cuInit)hooked("cuInit"))(0));
    check(((pfn_cuDevicePrimaryCtxRetain)hooked("cuDevicePrimaryCtxRetain"))(&context, 0));
    check(((pfn_cuCtxSetCurrent)hooked("cuCtxSetCurrent"))(context));
    check(((pfn_cuMemAlloc_v2)hooked("cuMemAlloc_v2"))(&base, (size_t)BLOCKS * BLOCK));
    void (*tell)(CUdeviceptr, int64_t, size_t, size_t, int16_t) =
        (__typeof__(tell))found(dlsym(ulms, tell_name), tell_name);
    for (size_t i = 0; i < BLOCKS; i++)
        tell(base + i * BLOCK, BLOCK, 0, 0, CUDA_DEVICE_0);
    for (int s = 0; s < SETS; s++)
        for (int o = 0; o < OPERANDS; o++)
            sets[s].at[o] = (void *)(uintptr_t)(base + (CUdeviceptr)(rand() % BLOCKS) * BLOCK);
}

static void repeat(const struct bench_call *call, void *function, int times) {
    for (int i = 0; i < times; i++)
        call->run(function, &sets[i % SETS]);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds a call, the median over batches. */
static double median_ns(const struct bench_call *call, void *function) {
    double took[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        uint64_t from = clock_ns();
        repeat(call, function, BATCH);
        took[b] = (double)(clock_ns() - from) / BATCH;
    }
    qsort(took, BATCHES, sizeof *took, ascending);
    return took[BATCHES / 2];
}

static void keep_least(double *least, double ns, int round) {
    if (round == 0 || ns < *least)
        *least = ns;
}

static void time_call(const struct bench_call *call, int rounds) {
    void *plain = found(dlsym(RTLD_DEFAULT, call->name), call->name), *ours = hooked(call->name);
    double plain_ns = 0, hooked_ns = 0;
    check(plain == ours);
    for (int round = 0; round < rounds; round++) {
        keep_least(&plain_ns, median_ns(call, plain), round);
        keep_least(&hooked_ns, median_ns(call, ours), round);
    }
    printf("%s %.1f %.1f\n", call->name, plain_ns, hooked_ns);
}

__attribute__((noinline)) static void counted(const struct bench_call *call, void *function, int times) {
    repeat(call, function, times);
}

static void count_call(const struct bench_call *call, bool ours, int times) {
    void *function = ours ? hooked(call->name) : found(dlsym(RTLD_DEFAULT, call->name), call->name);
    repeat(call, function, SETS);
    counted(call, function, times);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    start(argv[1]);
    const struct bench_call *lists[] = {blas_calls(sets), dnn_calls(sets), nccl_calls()};
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++)
        for (const struct bench_call *call = lists[list]; call->name; call++)
            if (strcmp(argv[2], "time") == 0)
                time_call(call, atoi(argv[3]));
            else
                count_call(call, strcmp(argv[2], "hooked") == 0, atoi(argv[3]));
    return 0;
}
