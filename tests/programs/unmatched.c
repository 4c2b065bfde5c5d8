/* Launches of which some show no address of device memory: prints nothing.
 *
 * spin, twice: a number; fill, three times, once with nothing to fill; axpy, whose addresses are known; nop, which has
 * no arguments. */
#include "device.h"
#include "emu.h"

USE(cuCtxSynchronize)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuMemAlloc_v2)
USE(cuLaunchKernel)

static CUmodule module;

static void launch(const char *name, void **parameters) {
    CUfunction f;
    MUST(cuModuleGetFunction(&f, module, name));
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
}

int main(void) {
    CUdeviceptr p, none = 0;
    uint64_t ns = 5, some = 100, zero = 0;
    float one = 1;
    use_device();
    MUST(cuModuleLoadData(&module, EMU_BUILTIN));
    MUST(cuMemAlloc_v2(&p, 1 << 20));
    launch("spin", (void *[]){&ns});
    launch("spin", (void *[]){&ns});
    launch("fill", (void *[]){&p, &one, &some});
    launch("fill", (void *[]){&none, &one, &zero});
    launch("fill", (void *[]){&p, &one, &some});
    launch("axpy", (void *[]){&one, &p, &p, &some});
    launch("nop", NULL);
    MUST(cuCtxSynchronize());
    return 0;
}
