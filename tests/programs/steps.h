/* What the shapes of steps.c are made of: calls, buffers of one size, kernels over them, and blocks of a framework. */
#ifndef PROGRAM_STEPS_H
#define PROGRAM_STEPS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "framework.h"
#include "must.h"

/* The name of the program's next call, up to the bracket. */
static void spare(const char *call) {
    static _Thread_local char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    emu_spare(name);
}
#undef MUST
#define MUST(call) (spare(#call), must((call), #call))

#include "device.h" /* whose calls are spared, too */

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxGetCurrent)
USE(cuCtxSynchronize)
USE(cuModuleLoadData)
USE(cuModuleGetGlobal_v2)
USE(cuModuleGetFunction)
USE(cuMemAlloc_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuMemsetD32Async)
USE(cuStreamDestroy_v2)
USE(cuStreamSynchronize)
USE(cuStreamWaitEvent)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphExecDestroy)
USE(cuGraphDestroy)
USE(cuEventCreate)
USE(cuEventRecord)
USE(cuEventDestroy_v2)
USE(cuLaunchHostFunc)
USE(cuLaunchKernel)

enum { LAYERS_MAX = 64 };

static uint64_t layers, floats, steps;
static CUfunction fill, copy, scale, axpy, add;

static void launch(CUfunction f, CUstream s, void **parameters) {
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, parameters, NULL));
}
#define LAUNCH(f, s, ...) launch(f, s, (void *[]){__VA_ARGS__})

static CUdeviceptr allocate(void) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, floats * sizeof(float)));
    return p;
}

static void set(CUdeviceptr p, float value, CUstream s) {
    LAUNCH(fill, s, &p, &value, &floats);
}

/* y += a x */
static void accumulate(CUdeviceptr y, float a, CUdeviceptr x, CUstream s) {
    LAUNCH(axpy, s, &a, &x, &y, &floats);
}

/* Of every byte. */
static void print(const char *name, CUdeviceptr p) {
    float *host = malloc(floats * sizeof *host);
    uint64_t sum = 14695981039346656037u;
    MUST(cuMemcpyDtoH_v2(host, p, floats * sizeof *host));
    for (uint64_t i = 0; i < floats; i++) {
        uint32_t bits;
        memcpy(&bits, &host[i], sizeof bits);
        sum = (sum ^ bits) * 1099511628211u;
    }
    printf("%s %016llx %g\n", name, (unsigned long long)sum, (double)host[floats - 1]);
    free(host);
}

/* --- a framework's allocator: blocks out of one arena, told of as PyTorch tells --- */

static CUdeviceptr arena;
static bool taken[LAYERS_MAX];

static CUdeviceptr block_take(void) {
    for (uint64_t i = 0; i < layers + 1; i++)
        if (!taken[i]) {
            taken[i] = true;
            CUdeviceptr p = arena + i * floats * sizeof(float);
            report(p, (int64_t)(floats * sizeof(float)));
            return p;
        }
    abort();
}

static void block_give(CUdeviceptr p) {
    taken[(p - arena) / (floats * sizeof(float))] = false;
    report(p, -(int64_t)(floats * sizeof(float)));
}

#endif
