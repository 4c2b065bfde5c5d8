/* constructor PLUGIN WHERE FIRST: a library whose constructor works over the budget of the device.
 *
 * WHERE: own, the thread that loads it; joined, one that the constructor starts and waits for, while dlopen holds the
 * loader's lock; closing, one that the destructor starts and waits for, while dlclose holds it; or listing, one that is
 * waited for in a callback of dl_iterate_phdr, which holds the lock of the list of objects. FIRST: program, if main has
 * initialised CUDA and a cuBLAS already; or constructor. The words reach the library in the environment.
 *
 * Built twice: with PLUGIN defined it is that library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "cublas/abi.h"
#include "device.h"
#include "emu.h"
#include "framework.h"

USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemGetInfo_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuCtxSynchronize)
USE(cuStreamDestroy_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemsetD8_v2)
USE(cuGetProcAddress_v2)
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasSscal_v2(cublasHandle_t handle, int n, const float *alpha, float *x, int incx);
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy);
/* of the framework; there under ulms.so alone */
__attribute__((weak)) void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *, int64_t, size_t, size_t,
                                                                                 struct c10_device);
#define report_block _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE

enum { BLOCKS = 16, BYTES = 4 << 20, FLOATS = BYTES / 4, ROUNDS = 3, SINCE = 3020 };

#ifdef PLUGIN
extern cublasHandle_t program_blas;

/* What a library may do at its first breath: it looks functions up, and tells of blocks. */
static void look_up(CUdeviceptr p) {
    CUdriverProcAddressQueryResult how;
    pfn_cuMemGetInfo_v2 info;
    size_t free, total;
    MUST(cuGetProcAddress_v2("cuMemGetInfo", (void **)&info, SINCE, 0, &how));
    MUST(info(&free, &total));
    if (report_block)
        report_block((void *)(uintptr_t)p, BYTES, 0, 0, (struct c10_device){1, 0});
}

static void multiply(CUdeviceptr p) {
    float two = 2;
    if (program_blas && (cublasScopy_v2(program_blas, 8, (float *)p, 1, (float *)p + 8, 1) ||
                         cublasSscal_v2(program_blas, 8, &two, (float *)p + 16, 1)))
        exit(1);
}

static void sweep(CUfunction fill, CUdeviceptr *p, CUstream s) {
    uint64_t n = FLOATS;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BLOCKS; i++) {
            float value = (float)(round * BLOCKS + i);
            MUST(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p[i], &value, &n}, NULL));
        }
    MUST(cuCtxSynchronize());
}

static void *work(void *unused) {
    CUmodule module;
    CUfunction fill;
    CUdeviceptr p[BLOCKS], ordered;
    use_device();
    CUstream s = new_stream();
    MUST(cuModuleLoadData(&module, EMU_BUILTIN));
    MUST(cuModuleGetFunction(&fill, module, "fill"));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&p[i], BYTES));
    MUST(cuMemAllocAsync(&ordered, BYTES, s));
    look_up(p[0]);
    sweep(fill, p, s);
    multiply(p[0]);
    MUST(cuMemsetD8_v2(ordered, 1, BYTES));
    for (int i = 0; i < BLOCKS; i++) {
        float last;
        MUST(cuMemcpyDtoH_v2(&last, p[i] + BYTES - sizeof last, sizeof last));
        printf("%g\n", (double)last);
        MUST(cuMemFree_v2(p[i]));
    }
    MUST(cuMemFreeAsync(ordered, s));
    MUST(cuCtxSynchronize());
    MUST(cuStreamDestroy_v2(s));
    fflush(stdout);
    return unused;
}

static void work_beside(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, work, NULL) || pthread_join(other, NULL))
        abort();
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    work_beside();
    return 1;
}

__attribute__((constructor)) static void load(void) {
    if (strcmp(getenv("WHERE"), "own") == 0)
        work(NULL);
    else if (strcmp(getenv("WHERE"), "joined") == 0)
        work_beside();
    else if (strcmp(getenv("WHERE"), "listing") == 0)
        dl_iterate_phdr(visit, NULL);
}

__attribute__((destructor)) static void unload(void) {
    if (strcmp(getenv("WHERE"), "closing") == 0)
        work_beside();
}
#else
cublasHandle_t program_blas;

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    setenv("WHERE", argv[2], 1);
    print_counters_at_exit();
    if (strcmp(argv[3], "program") == 0) {
        CUdeviceptr p;
        float one = 1;
        use_device();
        MUST(cuMemAlloc_v2(&p, BYTES));
        report((uint64_t)p, BYTES);
        report((uint64_t)p, -BYTES);
        if (cublasCreate_v2(&program_blas) || cublasSscal_v2(program_blas, 8, &one, (float *)p, 1))
            return 1;
        MUST(cuMemFree_v2(p));
    }
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    dlclose(plugin);
    return 0;
}
#endif
