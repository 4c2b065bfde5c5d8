/* The same few launches for every way by which a program may come to the driver's functions. */
#ifndef PROGRAM_WAYS_H
#define PROGRAM_WAYS_H

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "emu.h"

/* name for cuGetProcAddress, exported symbol */
#define WAYS(X)                                                                                                        \
    X(cuInit, cuInit)                                                                                                  \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                              \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                                                \
    X(cuModuleLoadData, cuModuleLoadData)                                                                              \
    X(cuModuleGetFunction, cuModuleGetFunction)                                                                        \
    X(cuMemAlloc, cuMemAlloc_v2)                                                                                       \
    X(cuMemsetD32, cuMemsetD32_v2)                                                                                     \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2)                                                                                   \
    X(cuLaunchKernel, cuLaunchKernel)

struct driver {
#define X(name, symbol) pfn_##symbol name;
    WAYS(X)
#undef X
};

enum { WAYS_LAUNCHES = 3, WAYS_FLOATS = 1000 };

static inline void ways_check(CUresult status, const char *what) {
    if (status == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", what, (int)status);
    exit(1);
}

/* Adds ones to ones three times, and prints what came of it. */
static inline void ways_work(const struct driver *d) {
    CUcontext context;
    CUmodule module;
    CUfunction axpy;
    CUdeviceptr x, y;
    uint32_t one = 0x3f800000;
    uint64_t n = WAYS_FLOATS;
    float a = 1, last = 0;
#define CU(call, ...) ways_check(d->call(__VA_ARGS__), #call)
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    CU(cuModuleLoadData, &module, EMU_BUILTIN);
    CU(cuModuleGetFunction, &axpy, module, "axpy");
    CU(cuMemAlloc, &x, n * sizeof a);
    CU(cuMemAlloc, &y, n * sizeof a);
    CU(cuMemsetD32, x, one, n);
    CU(cuMemsetD32, y, one, n);
    void *parameters[] = {&a, &x, &y, &n};
    for (int i = 0; i < WAYS_LAUNCHES; i++)
        CU(cuLaunchKernel, axpy, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
    CU(cuMemcpyDtoH, &last, y + (n - 1) * sizeof last, sizeof last);
#undef CU
    printf("%.1f\n", (double)last);
}

#endif
