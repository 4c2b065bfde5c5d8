/* A cuDNN whose recurrent network launches a kernel for each step of time, in two streams in turn, as the real one
 * does: each uses a part of what the call was handed. */
#include <stdbool.h>

#include "device.h"
#include "emu.h"
#include "library.h"

USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamCreate)
USE(cuEventCreate)
USE(cuEventRecord)
USE(cuEventDestroy_v2)
USE(cuStreamWaitEvent)
USE(cuMemAlloc_v2)
USE(cuMemsetD8Async)
USE(cudnnGetRNNDataDescriptor)
USE(cudnnGetTensorNdDescriptor)
USE(cudnnRNNForward)

enum { STEPS = 32, NOT_SUPPORTED = 3000 };

static cudnnStatus_t none(const void *d, const void *asked) {
    return (cudnnStatus_t)(!d || !asked ? NOT_SUPPORTED : 0);
}

cudnnStatus_t cudnnGetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t *type, cudnnRNNDataLayout_t *layout,
                                        int *longest, int *batch, int *width, int room, int *lengths, void *padding) {
    (void)layout, (void)longest, (void)batch, (void)width, (void)room, (void)lengths, (void)padding;
    return none(d, type);
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t d, int room, cudnnDataType_t *type, int *rank,
                                         int *sizes, int *strides) {
    (void)room, (void)rank, (void)sizes, (void)strides;
    return none(d, type);
}

/* cell(weights, work, reserve, bytes of each, step): a part of each. */
static void cell(struct emu_launch *l) {
    uint64_t bytes = EMU_ARG(l, uint64_t, 3) / STEPS, at = EMU_ARG(l, uint64_t, 4) * bytes;
    const uint32_t *w = emu_use(l, EMU_ARG(l, uint64_t, 0) + at, bytes, EMU_READ);
    uint32_t *work = emu_use(l, EMU_ARG(l, uint64_t, 1) + at, bytes, EMU_WRITE);
    uint32_t *reserve = emu_use(l, EMU_ARG(l, uint64_t, 2) + at, bytes, EMU_WRITE);
    for (uint64_t i = 0; i < bytes / sizeof *w; i++)
        reserve[i] = 17 * (work[i] = 31 * w[i] + (uint32_t)at) + (uint32_t)i;
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 8}};
static const struct emu_kernel kernel = {"cell", parameters, 5, cell};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

/* What is issued into `to` from now on comes after what `from` has. */
static void follow(CUstream to, CUstream from) {
    CUevent event;
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(event, from));
    MUST(cuStreamWaitEvent(to, event, 0));
    MUST(cuEventDestroy_v2(event));
}

/* Memory of the library's own, made in its first call. */
static CUdeviceptr own(size_t bytes) {
    static __thread CUdeviceptr made;
    if (!made)
        MUST(cuMemAlloc_v2(&made, bytes));
    return made;
}

/* The handle is the stream; the descriptor says what is cleared in the middle. Launches go on after one that fails. */
cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc, cudnnForwardMode_t fwdMode,
                              const int32_t devSeqLengths[], cudnnRNNDataDescriptor_t xDesc, const void *x,
                              cudnnRNNDataDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t hDesc, const void *hx,
                              void *hy, cudnnTensorDescriptor_t cDesc, const void *cx, void *cy, size_t weightSpaceSize,
                              const void *weightSpace, size_t workSpaceSize, void *workSpace, size_t reserveSpaceSize,
                              void *reserveSpace) {
    static __thread CUstream other;
    static __thread CUfunction function;
    CUstream streams[] = {(CUstream)handle, NULL};
    CUmodule module;
    CUresult refused = CUDA_SUCCESS;
    (void)devSeqLengths, (void)xDesc, (void)x, (void)yDesc, (void)y, (void)hDesc, (void)hx, (void)hy, (void)cDesc;
    (void)cx, (void)cy, (void)fwdMode, (void)weightSpaceSize, (void)workSpaceSize;
    if (!function) {
        MUST(cuModuleLoadData(&module, &image));
        MUST(cuModuleGetFunction(&function, module, "cell"));
        MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    }
    streams[1] = other;
    for (uint64_t step = 0; step < STEPS; step++) {
        void *arguments[] = {&weightSpace, &workSpace, &reserveSpace, &reserveSpaceSize, &step};
        CUstream stream = streams[step % 2];
        follow(stream, streams[(step + 1) % 2]);
        if (rnnDesc && step == STEPS / 2) {
            bool its = *(const char *)rnnDesc == 'o';
            CUdeviceptr cleared = its ? own(workSpaceSize / 2) : (CUdeviceptr)(uintptr_t)workSpace;
            MUST(cuMemsetD8Async(cleared, 1, workSpaceSize / 2, stream));
        }
        CUresult launched = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
        refused = refused ? refused : launched;
    }
    follow(streams[0], streams[(STEPS - 1) % 2]);
    return (cudnnStatus_t)refused;
}
