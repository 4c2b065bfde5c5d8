/* Another interposer: counts calls of two functions of the driver, passes them on, and tells the counts at its end.
 *
 * FIND says how it finds the functions that it passes on to: NEXT, dlsym(RTLD_NEXT); HANDLE, dlsym in the library that
 * it opens by its name; PROC, cuGetProcAddress, with which it is linked, as it is loaded; NEXT_PROC, that function as
 * found by dlsym(RTLD_NEXT). PROC also calls functions that it is linked with, in each call. NAME distinguishes
 * several.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum find { NEXT, HANDLE, PROC, NEXT_PROC };
enum { SINCE = 4000 };

#define USE(f) extern __typeof__(*(pfn_##f)NULL) f __attribute__((weak));
USE(cuGetProcAddress_v2)
USE(cuMemGetInfo_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemFree_v2)
USE(cuCtxSynchronize)

static int allocations, launches;

static void *ask(pfn_cuGetProcAddress_v2 get, const char *base) {
    CUdriverProcAddressQueryResult how;
    void *found = NULL;
    return get && get(base, &found, SINCE, 0, &how) == CUDA_SUCCESS ? found : NULL;
}

static void *find(const char *symbol, const char *base) {
    switch ((enum find)FIND) {
    case NEXT:
        return dlsym(RTLD_NEXT, symbol);
    case HANDLE:
        return dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol);
    case PROC:
        return ask(cuGetProcAddress_v2, base);
    default:
        return ask((pfn_cuGetProcAddress_v2)dlsym(RTLD_NEXT, "cuGetProcAddress_v2"), base);
    }
}

/* Looks at the memory, uses some and waits. */
static CUresult meddle(CUresult status) {
    size_t free, total, pitch;
    CUdeviceptr p;
    if (FIND != PROC || status != CUDA_SUCCESS)
        return status;
    if (cuMemGetInfo_v2(&free, &total) || cuMemAllocPitch_v2(&p, &pitch, 1024, 1024, 4) || cuMemFree_v2(p))
        return CUDA_ERROR_UNKNOWN;
    return cuCtxSynchronize();
}

static pfn_cuMemAlloc_v2 real_alloc;
static pfn_cuLaunchKernel real_launch;

__attribute__((constructor)) static void begin(void) {
    if (FIND != PROC)
        return;
    real_alloc = (pfn_cuMemAlloc_v2)find("cuMemAlloc_v2", "cuMemAlloc");
    real_launch = (pfn_cuLaunchKernel)find("cuLaunchKernel", "cuLaunchKernel");
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    if (!real_alloc)
        real_alloc = (pfn_cuMemAlloc_v2)find("cuMemAlloc_v2", "cuMemAlloc");
    allocations++;
    return allocations < 1000 ? meddle(real_alloc(p, bytes)) : CUDA_ERROR_UNKNOWN; /* rather than without end */
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
    if (!real_launch)
        real_launch = (pfn_cuLaunchKernel)find("cuLaunchKernel", "cuLaunchKernel");
    launches++;
    return launches < 1000 ? meddle(real_launch(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))
                           : CUDA_ERROR_UNKNOWN;
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "%s: %d allocations, %d launches\n", NAME, allocations, launches);
}
