/* Trains a small network on the device, the way a framework does: tensors out of one arena, batches copied on a stream
 * of their own, a loss read back at every step. Finds the driver as the CUDA runtime does, through cuGetProcAddress.
 *
 * train [STEPS]: prints the loss, the same on every run. Its kernels are those of the emulated device. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { BATCH = 32, LAYERS = 4, STEPS = 100, CUDA_VERSION_ASKED = 12080, ALIGNMENT = 512, ARENA_BYTES = 1 << 20 };
static const uint32_t width[LAYERS + 1] = {48, 96, 96, 64, 16};
static const float RATE = 3e-3f;

/* --- the driver --- */

#define DRIVER(X)                                                                                                      \
    X(cuInit, cuInit)                                                                                                  \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                              \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                                                \
    X(cuModuleLoadData, cuModuleLoadData)                                                                              \
    X(cuModuleGetFunction, cuModuleGetFunction)                                                                        \
    X(cuModuleUnload, cuModuleUnload)                                                                                  \
    X(cuMemAlloc, cuMemAlloc_v2)                                                                                       \
    X(cuMemFree, cuMemFree_v2)                                                                                         \
    X(cuMemHostAlloc, cuMemHostAlloc)                                                                                  \
    X(cuMemFreeHost, cuMemFreeHost)                                                                                    \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2)                                                                                   \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                                                         \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                                                                         \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                                                                         \
    X(cuMemsetD32Async, cuMemsetD32Async)                                                                              \
    X(cuStreamCreate, cuStreamCreate)                                                                                  \
    X(cuStreamDestroy, cuStreamDestroy_v2)                                                                             \
    X(cuStreamSynchronize, cuStreamSynchronize)                                                                        \
    X(cuStreamWaitEvent, cuStreamWaitEvent)                                                                            \
    X(cuEventCreate, cuEventCreate)                                                                                    \
    X(cuEventRecord, cuEventRecord)                                                                                    \
    X(cuEventDestroy, cuEventDestroy_v2)                                                                               \
    X(cuLaunchKernel, cuLaunchKernel)

static struct {
#define X(name, symbol) pfn_##symbol name;
    DRIVER(X)
#undef X
} cu;

static void check(CUresult status, const char *what) {
    if (status == CUDA_SUCCESS)
        return;
    fprintf(stderr, "train: %s: error %d\n", what, (int)status);
    exit(1);
}
#define CU(call, ...) check(cu.call(__VA_ARGS__), #call)

static void load_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!found) {
        fprintf(stderr, "train: no driver: %s\n", dlerror());
        exit(1);
    }
    pfn_cuGetProcAddress_v2 get = (pfn_cuGetProcAddress_v2)found;
    void *function;
    CUdriverProcAddressQueryResult status;
#define X(name, symbol)                                                                                                \
    check(get(#name, &function, CUDA_VERSION_ASKED, 0, &status), #name);                                               \
    cu.name = (pfn_##symbol)function;
    DRIVER(X)
#undef X
}

/* --- kernels --- */

#define KERNELS(X) X(gemm) X(relu) X(relu_backward) X(axpy) X(scale) X(adam)

static struct {
#define X(name) CUfunction name;
    KERNELS(X)
#undef X
} kernel;

static CUmodule load_kernels(void) {
    CUmodule module;
    CU(cuModuleLoadData, &module, "emu:builtin");
#define X(name) CU(cuModuleGetFunction, &kernel.name, module, #name);
    KERNELS(X)
#undef X
    return module;
}

static CUstream compute, load;

static void launch(CUfunction function, void **parameters) {
    CU(cuLaunchKernel, function, BATCH, 1, 1, 128, 1, 1, 0, compute, parameters, NULL);
}
#define LAUNCH(name, ...) launch(kernel.name, (void *[]){__VA_ARGS__})

enum { PLAIN = 0, A_TRANSPOSED = 1, B_TRANSPOSED = 2 };

/* c[m][n] = a[m][k] b[k][n] + beta c */
static void gemm(CUdeviceptr c, CUdeviceptr a, CUdeviceptr b, uint32_t m, uint32_t n, uint32_t k, float beta,
                 uint32_t transposed) {
    float alpha = 1;
    LAUNCH(gemm, &c, &a, &b, &m, &n, &k, &alpha, &beta, &transposed);
}

/* --- memory: weights and the optimizer's state by themselves, all else out of one arena --- */

static CUdeviceptr allocate(uint64_t floats) {
    CUdeviceptr p;
    CU(cuMemAlloc, &p, floats * sizeof(float));
    return p;
}

static CUdeviceptr arena, arena_next;

static CUdeviceptr carve(uint64_t floats) {
    CUdeviceptr p = arena_next;
    arena_next += (floats * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena_next > arena + ARENA_BYTES) {
        fprintf(stderr, "train: the arena is too small\n");
        exit(1);
    }
    return p;
}

/* Numbers in [-1, 1), the same on every machine. */
static float random_float(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 23) - 1;
}

/* --- the network: h[0] is the input, h[l] = relu(z[l]), z[l] = h[l-1] w[l]; the last layer has no relu --- */

struct adam_tensors {
    uint32_t count, reserved;
    CUdeviceptr weight[8], gradient[8], mean[8], square[8];
    uint64_t elements[8];
};

static struct adam_tensors tensors = {.count = LAYERS};
static CUdeviceptr h[LAYERS + 1], z[LAYERS + 1], dz[LAYERS + 1], dh[LAYERS + 1], target, loss;
static CUdeviceptr staged_input, staged_target;

static void make_layer(uint32_t l) {
    uint64_t elements = (uint64_t)width[l] * width[l + 1];
    float *initial = malloc(elements * sizeof *initial);
    if (!initial)
        exit(1);
    for (uint64_t i = 0; i < elements; i++)
        initial[i] = random_float() / (float)(width[l] / 8);
    tensors.elements[l] = elements;
    tensors.weight[l] = allocate(elements);
    tensors.mean[l] = allocate(elements);
    tensors.square[l] = allocate(elements);
    tensors.gradient[l] = carve(elements);
    CU(cuMemcpyHtoD, tensors.weight[l], initial, elements * sizeof *initial);
    CU(cuMemsetD32Async, tensors.mean[l], 0, elements, compute);
    CU(cuMemsetD32Async, tensors.square[l], 0, elements, compute);
    free(initial);
}

static void make_network(void) {
    CU(cuMemAlloc, &arena, ARENA_BYTES);
    arena_next = arena;
    for (uint32_t l = 0; l < LAYERS; l++)
        make_layer(l);
    for (uint32_t l = 0; l <= LAYERS; l++) {
        h[l] = carve(BATCH * width[l]);
        z[l] = carve(BATCH * width[l]);
        dz[l] = carve(BATCH * width[l]);
        dh[l] = carve(BATCH * width[l]);
    }
    target = carve(BATCH * width[LAYERS]);
    loss = carve(1);
    staged_input = carve(BATCH * width[0]);
    staged_target = carve(BATCH * width[LAYERS]);
}

static void forward(void) {
    for (uint32_t l = 1; l <= LAYERS; l++) {
        uint64_t n = (uint64_t)BATCH * width[l];
        gemm(z[l], h[l - 1], tensors.weight[l - 1], BATCH, width[l], width[l - 1], 0, PLAIN);
        if (l < LAYERS)
            LAUNCH(relu, &h[l], &z[l], &n);
    }
}

/* loss = |z - target|^2; dz = (z - target) / BATCH */
static void measure(void) {
    uint64_t n = (uint64_t)BATCH * width[LAYERS];
    float minus = -1, mean = 1.0f / BATCH;
    CU(cuMemcpyDtoDAsync, dz[LAYERS], z[LAYERS], n * sizeof(float), compute);
    LAUNCH(axpy, &minus, &target, &dz[LAYERS], &n);
    gemm(loss, dz[LAYERS], dz[LAYERS], 1, 1, (uint32_t)n, 0, PLAIN);
    LAUNCH(scale, &dz[LAYERS], &mean, &n);
}

static void backward(void) {
    for (uint32_t l = LAYERS; l >= 1; l--) {
        uint64_t n = (uint64_t)BATCH * width[l - 1];
        CU(cuMemsetD32Async, tensors.gradient[l - 1], 0, tensors.elements[l - 1], compute);
        gemm(tensors.gradient[l - 1], h[l - 1], dz[l], width[l - 1], width[l], BATCH, 1, A_TRANSPOSED);
        if (l > 1) {
            gemm(dh[l - 1], dz[l], tensors.weight[l - 1], BATCH, width[l - 1], width[l], 0, B_TRANSPOSED);
            LAUNCH(relu_backward, &dz[l - 1], &dh[l - 1], &z[l - 1], &n);
        }
    }
}

/* One launch for all tensors, their addresses inside a structure and the arguments in one buffer. */
static void optimize(uint32_t step) {
    struct {
        struct adam_tensors tensors;
        float rate;
        uint32_t step;
    } arguments = {tensors, RATE, step};
    size_t bytes = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    CU(cuLaunchKernel, kernel.adam, LAYERS, 1, 1, 128, 1, 1, 0, compute, NULL, extra);
}

/* --- batches: made on the host, copied on the stream `load` while the step before them runs --- */

static float *host_input, *host_target, *host_loss;
static CUevent loaded, taken;

static void load_batch(void) {
    for (uint32_t row = 0; row < BATCH; row++) {
        float *x = host_input + row * width[0], *y = host_target + row * width[LAYERS];
        for (uint32_t i = 0; i < width[0]; i++)
            x[i] = random_float();
        for (uint32_t i = 0; i < width[LAYERS]; i++)
            y[i] = x[i] - 0.5f * x[2 * i];
    }
    CU(cuStreamWaitEvent, load, taken, 0);
    CU(cuMemcpyHtoDAsync, staged_input, host_input, BATCH * width[0] * sizeof(float), load);
    CU(cuMemcpyHtoDAsync, staged_target, host_target, BATCH * width[LAYERS] * sizeof(float), load);
    CU(cuEventRecord, loaded, load);
}

static void take_batch(void) {
    CU(cuStreamWaitEvent, compute, loaded, 0);
    CU(cuMemcpyDtoDAsync, h[0], staged_input, BATCH * width[0] * sizeof(float), compute);
    CU(cuMemcpyDtoDAsync, target, staged_target, BATCH * width[LAYERS] * sizeof(float), compute);
    CU(cuEventRecord, taken, compute);
}

static void train(uint32_t steps) {
    load_batch();
    for (uint32_t step = 1; step <= steps; step++) {
        CU(cuStreamSynchronize, load); /* the host's buffers are free again */
        take_batch();
        forward();
        measure();
        backward();
        optimize(step);
        CU(cuMemcpyDtoHAsync, host_loss, loss, sizeof *host_loss, compute);
        if (step < steps)
            load_batch();
        CU(cuStreamSynchronize, compute);
        if (step == 1 || step % 10 == 0 || step == steps)
            printf("step %3u  loss %.6f\n", step, (double)(*host_loss / BATCH));
    }
}

int main(int argc, char **argv) {
    CUcontext context;
    load_driver();
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    CUmodule module = load_kernels();
    CU(cuStreamCreate, &compute, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate, &load, CU_STREAM_NON_BLOCKING);
    CU(cuEventCreate, &loaded, 0);
    CU(cuEventCreate, &taken, 0);
    CU(cuMemHostAlloc, (void **)&host_input, BATCH * width[0] * sizeof(float), 0);
    CU(cuMemHostAlloc, (void **)&host_target, BATCH * width[LAYERS] * sizeof(float), 0);
    CU(cuMemHostAlloc, (void **)&host_loss, sizeof *host_loss, 0);
    make_network();

    train(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : STEPS);

    for (uint32_t l = 0; l < LAYERS; l++) {
        CU(cuMemFree, tensors.weight[l]);
        CU(cuMemFree, tensors.mean[l]);
        CU(cuMemFree, tensors.square[l]);
    }
    CU(cuMemFree, arena);
    CU(cuMemFreeHost, host_input);
    CU(cuMemFreeHost, host_target);
    CU(cuMemFreeHost, host_loss);
    CU(cuEventDestroy, loaded);
    CU(cuEventDestroy, taken);
    CU(cuStreamDestroy, compute);
    CU(cuStreamDestroy, load);
    CU(cuModuleUnload, module);
    return 0;
}
