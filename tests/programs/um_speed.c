/* A program whose steps are timed, over more memory than a budget lets it keep.
 *
 * um_speed train|infer LAYERS WEIGHT_MIB ACTIVE_MIB STEPS prints "footprint BYTES", "step MS MOVED IN_PLACE" after each
 * step (bytes that came or left meanwhile, that kernels used on the host) and "result N", which is the same whatever
 * moves its memory. Kernels touch their ranges as a whole and compute samples of
 * them: modelled time (EMU_TIME), not this machine, decides how long a step takes. Under ulms.so "counter NAME VALUE"
 * follows for each of its counters. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "cublas/abi.h"
#include "emu.h"
#include "framework.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream);
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t trans, int m, int n, const float *alpha,
                              const float *A, int lda, const float *x, int incx, const float *beta, float *y, int incy);

enum { LAYERS_MAX = 128, ARENA_MAX = 1 << 14, SAMPLE_WORDS = 65536 };

/* Of a training step, as measured for ResNet-50 and GPT-2 medium (bench/traces): 4 to 5 ms a GiB of footprint. */
static const double compute_ns_a_byte = 4.5e6 / (1 << 30);

static uint64_t layers, weight_bytes, active_bytes, steps, footprint;
static CUstream stream;

#define CHECK(call) check((call), #call)
static void check(int status, const char *what) {
    if (status == 0)
        return;
    fprintf(stderr, "um_speed: %s: error %d\n", what, status);
    _exit(1);
}

/* --- kernels --- */

typedef uint32_t word;

struct range {
    CUdeviceptr start;
    uint64_t bytes;
};

/* The one parameter of every kernel. */
struct task {
    struct range to, from[2];
    uint64_t ns;
    word key;
};

static word scramble(word a, word b) {
    a = (a ^ b) * 0x9e3779b1u;
    return a ^ a >> 15;
}

/* Samples of `to`, each from a sample of every other range and, when it is updated, from itself. */
static void compute(struct emu_launch *l, int mode) {
    struct task t = EMU_ARG(l, struct task, 0);
    const word *from[2];
    uint64_t n = t.to.bytes / sizeof(word);
    word *to = emu_use(l, t.to.start, t.to.bytes, mode);
    for (int k = 0; k < 2; k++)
        from[k] = emu_use(l, t.from[k].start, t.from[k].bytes, EMU_READ);
    for (uint64_t i = 0; i < n; i += SAMPLE_WORDS) {
        word value = scramble(mode == EMU_UPDATE ? to[i] : (word)i, t.key);
        for (int k = 0; k < 2; k++)
            value = from[k] ? scramble(value, from[k][i % (t.from[k].bytes / sizeof(word))]) : value;
        to[i] = value;
    }
    emu_spend(l, t.ns);
}

static void produce(struct emu_launch *l) {
    compute(l, EMU_WRITE);
}

static void update(struct emu_launch *l) {
    compute(l, EMU_UPDATE);
}

/* One word from all samples of a range. */
static void digest(struct emu_launch *l) {
    struct task t = EMU_ARG(l, struct task, 0);
    const word *from = emu_use(l, t.from[0].start, t.from[0].bytes, EMU_READ);
    word *to = emu_use(l, t.to.start, sizeof(word), EMU_UPDATE);
    for (uint64_t i = 0; i < t.from[0].bytes / sizeof(word); i += SAMPLE_WORDS)
        *to = scramble(*to, from[i]);
}

enum kernel { PRODUCE, UPDATE, DIGEST, KERNELS };

static const struct emu_param parameter = {0, sizeof(struct task)};
static const struct emu_kernel kernels[KERNELS] = {[PRODUCE] = {"produce", &parameter, 1, produce},
                                                   [UPDATE] = {"update", &parameter, 1, update},
                                                   [DIGEST] = {"digest", &parameter, 1, digest}};
static const struct emu_image image = {EMU_MAGIC, kernels, KERNELS, NULL, 0};
static CUfunction function[KERNELS];

static const struct range nothing;

static void launch(enum kernel k, struct range to, struct range a, struct range b, double ns) {
    static word key;
    struct task t = {.to = to, .from = {a, b}, .ns = (uint64_t)ns, .key = ++key};
    CHECK(cuLaunchKernel(function[k], 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&t}, NULL));
}

/* --- memory --- */

static struct range allocate(uint64_t bytes) {
    struct range r = {.bytes = bytes};
    CHECK(cuMemAlloc_v2(&r.start, bytes));
    footprint += bytes;
    return r;
}

/* Written by a kernel, like all that a program keeps. */
static struct range allocate_filled(uint64_t bytes) {
    struct range r = allocate(bytes);
    launch(PRODUCE, r, nothing, nothing, 0);
    return r;
}

/* A framework's allocator: blocks of activations out of one arena, told of as PyTorch tells. */
static struct range arena;
static bool taken[ARENA_MAX]; /* by MiB */

static void tell(struct range block, bool live) {
    int64_t bytes = (int64_t)block.bytes;
    report(block.start, live ? bytes : -bytes);
}

/* The first place that is large enough. */
static struct range block_take(uint64_t bytes) {
    uint64_t need = bytes >> 20, run = 0, i = 0;
    for (; run < need; i++) {
        if (i == arena.bytes >> 20)
            abort();
        run = taken[i] ? 0 : run + 1;
    }
    memset(&taken[i - need], true, need);
    struct range block = {arena.start + ((i - need) << 20), bytes};
    tell(block, true);
    return block;
}

static void block_give(struct range block) {
    memset(&taken[(block.start - arena.start) >> 20], false, block.bytes >> 20);
    tell(block, false);
}

/* --- steps --- */

static void print_result(const struct range *weight, uint64_t n) {
    struct range sum = allocate_filled(sizeof(word));
    word result;
    for (uint64_t l = 0; l < n; l++)
        launch(DIGEST, sum, weight[l], nothing, 0);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(&result, sum.start, sizeof result));
    printf("result %u\n", result);
}

static uint64_t moved(const struct emu_traffic *t) {
    return t->prefetch_in + t->prefetch_out + t->fault_bytes + t->evicted + t->copied_in + t->copied_out;
}

/* The end of a step is seen by a program that asks for its loss. */
static void timed(void (*step)(void)) {
    for (uint64_t i = 0; i < steps; i++) {
        struct timespec began, ended;
        struct emu_traffic before, after;
        emu_traffic(&before);
        clock_gettime(CLOCK_MONOTONIC, &began);
        step();
        CHECK(cuStreamSynchronize(stream));
        clock_gettime(CLOCK_MONOTONIC, &ended);
        emu_traffic(&after);
        printf("step %.3f %llu %llu\n",
               (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) * 1e-6,
               (unsigned long long)(moved(&after) - moved(&before)),
               (unsigned long long)(after.in_place - before.in_place));
    }
}

static struct range weight[LAYERS_MAX], gradient[LAYERS_MAX], mean[LAYERS_MAX], square[LAYERS_MAX];

/* Forward, which leaves an activation a layer; backward, which reads them in reverse; then the optimizer. */
static void train_step(void) {
    struct range active[LAYERS_MAX + 1], scores, slope, next;
    double ns = compute_ns_a_byte * (double)footprint / (double)(3 * layers);
    active[0] = block_take(active_bytes);
    launch(PRODUCE, active[0], nothing, nothing, 0);
    for (uint64_t l = 0; l < layers; l++) {
        active[l + 1] = block_take(active_bytes);
        launch(PRODUCE, active[l + 1], active[l], weight[l], ns);
    }
    scores = block_take(2 * active_bytes);
    launch(PRODUCE, scores, active[layers], nothing, 0);
    next = block_take(2 * active_bytes);
    launch(PRODUCE, next, scores, nothing, 0);
    block_give(scores);
    slope = block_take(active_bytes);
    launch(PRODUCE, slope, next, nothing, 0);
    block_give(next);
    for (uint64_t l = layers; l-- > 0;) {
        next = block_take(active_bytes);
        gradient[l] = block_take(weight_bytes);
        launch(PRODUCE, gradient[l], slope, active[l], ns);
        launch(PRODUCE, next, slope, weight[l], ns);
        block_give(slope);
        block_give(active[l + 1]);
        slope = next;
    }
    block_give(slope);
    block_give(active[0]);
    for (uint64_t l = 0; l < layers; l++) {
        launch(UPDATE, mean[l], gradient[l], nothing, 0);
        launch(UPDATE, square[l], gradient[l], nothing, 0);
        launch(UPDATE, weight[l], mean[l], square[l], 0);
    }
    for (uint64_t l = 0; l < layers; l++)
        block_give(gradient[l]);
}

static void train(void) {
    /* What is live at most, and room for what fits no gap. */
    arena = allocate((layers + 6) * active_bytes + 2 * weight_bytes);
    for (uint64_t l = 0; l < layers; l++) {
        weight[l] = allocate_filled(weight_bytes);
        mean[l] = allocate_filled(weight_bytes);
        square[l] = allocate_filled(weight_bytes);
    }
    timed(train_step);
    print_result(weight, layers);
}

/* Weights that are only read, layer after layer, by a library that says so; one token a step. */
static cublasHandle_t blas;
static CUdeviceptr state[2];
static int width;

static void infer_step(void) {
    const float one = 1, zero = 0;
    for (uint64_t l = 0; l < layers; l++)
        CHECK(cublasSgemv_v2(blas, CUBLAS_OP_N, width, width, &one, (void *)(uintptr_t)weight[l].start, width,
                             (void *)(uintptr_t)state[l % 2], 1, &zero, (void *)(uintptr_t)state[1 - l % 2], 1));
}

static void infer(void) {
    while ((uint64_t)(width + 1) * (uint64_t)(width + 1) * sizeof(float) <= weight_bytes)
        width++;
    for (uint64_t l = 0; l < layers; l++)
        weight[l] = allocate_filled(weight_bytes);
    for (int i = 0; i < 2; i++)
        state[i] = allocate_filled((uint64_t)width * sizeof(float)).start;
    CHECK(cublasCreate_v2(&blas));
    CHECK(cublasSetStream_v2(blas, stream));
    timed(infer_step);
    print_result(&(struct range){state[layers % 2], (uint64_t)width * sizeof(float)}, 1);
}

int main(int argc, char **argv) {
    CUcontext context;
    CUmodule module;
    if (argc != 6)
        return 2;
    layers = strtoull(argv[2], NULL, 0);
    weight_bytes = strtoull(argv[3], NULL, 0) << 20;
    active_bytes = strtoull(argv[4], NULL, 0) << 20;
    steps = strtoull(argv[5], NULL, 0);
    if (layers == 0 || layers > LAYERS_MAX)
        return 2;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, &image));
    for (int k = 0; k < KERNELS; k++)
        CHECK(cuModuleGetFunction(&function[k], module, kernels[k].name));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(argv[1], "train") == 0)
        train();
    else
        infer();
    printf("footprint %llu\n", (unsigned long long)footprint);
    print_counters();
    return 0;
}
