/* A kernel of which nobody knows what it follows has run, while what was issued before it still waits behind a gate of
 * the program's own: the blocks that are used next, four times as many as fit, come as ever.
 *
 * Under ulms.so "counter NAME VALUE" follows for each of its counters. */
#include "counters.h"
#include "emu.h"
#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuMemHostAlloc)
USE(cuMemsetD32Async)
USE(cuStreamCreate)
USE(cuStreamSynchronize)
USE(cuStreamWaitValue32_v2)

enum { MIB = 1 << 20, BLOCKS = 8, BLOCK = 4 * MIB };

static void touch(struct emu_launch *l) {
    unsigned *word = emu_use(l, EMU_ARG(l, uint64_t, 0), sizeof *word, EMU_UPDATE);
    ++*word;
}

static const struct emu_param parameters[] = {{0, 8}};
static const struct emu_kernel kernels[] = {{"touch", parameters, 1, touch}};
static const struct emu_image image = {
    .magic = {'E', 'M', 'U', 'I', 'M', 'A', 'G', 'E'}, .kernels = kernels, .kernel_count = 1};

int main(void) {
    CUcontext context;
    CUstream stream, behind;
    CUmodule module;
    CUfunction function;
    CUdeviceptr block[BLOCKS], gated;
    volatile unsigned *gate;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, "touch"));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
    MUST(cuMemHostAlloc((void **)&gate, 4096, 0));
    *gate = 0;
    MUST(cuMemAlloc_v2(&gated, BLOCK));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    for (unsigned i = 0; i < BLOCKS; i++)
        MUST(cuMemsetD32Async(block[i], i, BLOCK / sizeof i, stream));
    MUST(cuStreamSynchronize(stream));

    MUST(cuStreamWaitValue32_v2(behind, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cuMemsetD32Async(gated, 1, BLOCK / sizeof(unsigned), behind));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&block[0]}, NULL));
    MUST(cuStreamSynchronize(stream));
    for (unsigned i = 0; i < BLOCKS; i++)
        MUST(cuMemsetD32Async(block[i], i, BLOCK / sizeof i, stream));
    MUST(cuStreamSynchronize(stream));
    print_counters();
    *gate = 1;
    MUST(cuStreamSynchronize(behind));
    return 0;
}
