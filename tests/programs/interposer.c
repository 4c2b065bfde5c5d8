/* Another interposer: counts calls of two functions of the driver, passes them on, and tells the counts at its end.
 *
 * FIND says how it finds the functions that it passes on to: NEXT, dlsym(RTLD_NEXT); HANDLE, dlsym in the library that
 * it opens by its name; PROC, cuGetProcAddress, with which it is linked, as it is loaded; NEXT_PROC, that function as
 * found by dlsym(RTLD_NEXT). NAME distinguishes several. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "driver.h"

enum find { NEXT, HANDLE, PROC, NEXT_PROC };
enum { SINCE = 4000 };

extern __typeof__(*(pfn_cuGetProcAddress_v2)NULL) cuGetProcAddress_v2 __attribute__((weak));

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
    return allocations < 1000 ? real_alloc(p, bytes) : CUDA_ERROR_UNKNOWN; /* rather than without end */
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
    if (!real_launch)
        real_launch = (pfn_cuLaunchKernel)find("cuLaunchKernel", "cuLaunchKernel");
    launches++;
    return launches < 1000 ? real_launch(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)
                           : CUDA_ERROR_UNKNOWN;
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "%s: %d allocations, %d launches\n", NAME, allocations, launches);
}
