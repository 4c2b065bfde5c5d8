/* A program whose kernel has a name that steers a terminal, over more memory than a budget lets it keep. */
#include "device.h"
#include "emu.h"

USE(cuMemAlloc_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuCtxSynchronize)

#define NAME "\033[2J\a\302\233evil\r"
enum { BLOCKS = 8, BLOCK = 4 << 20 };

static void run(struct emu_launch *l) {
    unsigned *p = emu_use(l, EMU_ARG(l, uint64_t, 0), BLOCK, EMU_UPDATE);
    p[0]++;
}

static const struct emu_param parameter = {0, 8};
static const struct emu_kernel kernel = {NAME, &parameter, 1, run};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

int main(void) {
    CUmodule module;
    CUfunction function;
    CUdeviceptr block[BLOCKS];
    use_device();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, NAME));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    for (int i = 0; i < 3 * BLOCKS; i++)
        MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&block[i % BLOCKS]}, NULL));
    MUST(cuCtxSynchronize());
    return 0;
}
