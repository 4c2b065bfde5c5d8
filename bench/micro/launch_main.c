/* A program that launches, to count instructions of: launch_main BLOCKS LAUNCHES. Under ulms.so it tells BLOCKS blocks
 * first. */
#include <stdlib.h>

#include "driver.h"
#include "emu.h"

#define USES(X)                                                                                                        \
    X(cuInit)                                                                                                          \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuStreamSynchronize)                                                                                             \
    X(cuLaunchKernel)
#define X(f) extern __typeof__(*(pfn_##f)NULL) f;
USES(X)
#undef X

#define TELL _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
__attribute__((weak)) void TELL(CUdeviceptr, int64_t, size_t, size_t, int16_t);

extern const struct emu_image bench_image;
void bench_arguments(CUdeviceptr base, unsigned long blocks);
void **bench_set(unsigned i);

enum { BLOCK = 512, CUDA_DEVICE_0 = 1 };

int main(int argc, char **argv) {
    unsigned long blocks = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    unsigned launches = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    CUcontext context;
    CUmodule module;
    CUfunction f;
    CUdeviceptr base;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuModuleLoadData(&module, &bench_image) || cuModuleGetFunction(&f, module, "twelve") ||
        cuMemAlloc_v2(&base, blocks * BLOCK))
        return 1;
    for (unsigned long i = 0; TELL && i < blocks; i++)
        TELL(base + i * BLOCK, BLOCK, 0, 0, CUDA_DEVICE_0);
    bench_arguments(base, blocks);
    for (unsigned i = 0; i < launches; i++)
        if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, bench_set(i), NULL))
            return 1;
    return cuStreamSynchronize(NULL);
}
