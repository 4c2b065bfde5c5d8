/* Calls of cuDNN that give an address and not how far it reaches: the block around it counts, or bounds what does. */
#include "driver/real.h"
#include "library.h"
#include "library/call.h"

static void block(struct call *call, const void *address, enum touch_mode mode) {
    call_block(call, (addr_t)(uintptr_t)address, mode);
}

void touches_cudnnSpatialTfGridGeneratorForward(struct call *call, int variant, cudnnHandle_t handle,
                                                const cudnnSpatialTransformerDescriptor_t stDesc, const void *theta,
                                                void *grid) {
    (void)variant, (void)handle, (void)stDesc;
    block(call, theta, TOUCH_READ);
    block(call, grid, TOUCH_UPDATE);
}

void touches_cudnnSpatialTfGridGeneratorBackward(struct call *call, int variant, cudnnHandle_t handle,
                                                 const cudnnSpatialTransformerDescriptor_t stDesc, const void *dgrid,
                                                 void *dtheta) {
    (void)variant, (void)handle, (void)stDesc;
    block(call, dgrid, TOUCH_READ);
    block(call, dtheta, TOUCH_UPDATE);
}

/* 0: it was never set, as versions 8.9 and 9.28 answer then. */
static int64_t longest_label(int variant, cudnnCTCLossDescriptor_t loss) {
    cudnnDataType_t type;
    cudnnLossNormalizationMode_t normalization;
    cudnnNanPropagation_t gradient;
    int longest = 0;
    if (!loss || REAL(cudnnGetCTCLossDescriptor_v8, variant)(loss, &type, &normalization, &gradient, &longest))
        return 0;
    return longest;
}

/* The labels of all sequences, one behind the other: how many they are is in device memory as well. */
void touches_cudnnCTCLoss_v8(struct call *call, int variant, cudnnHandle_t handle, cudnnCTCLossAlgo_t algo,
                             cudnnCTCLossDescriptor_t ctcLossDesc, const cudnnTensorDescriptor_t probsDesc,
                             const void *probs, const int *labels, const int *labelLengths, const int *inputLengths,
                             void *costs, const cudnnTensorDescriptor_t gradientsDesc, void *gradients,
                             size_t workSpaceSizeInBytes, void *workspace) {
    (void)handle, (void)algo, (void)probs, (void)labelLengths, (void)inputLengths, (void)costs, (void)gradientsDesc;
    (void)gradients, (void)workSpaceSizeInBytes, (void)workspace;
    int64_t most = longest_label(variant, ctcLossDesc) * cudnn_sequences(variant, probsDesc);
    if (most > 0)
        call_within(call, (addr_t)(uintptr_t)labels, library_count(most), 8 * sizeof *labels, TOUCH_READ);
    else
        block(call, labels, TOUCH_READ);
}

/* A label that the pack does not know, or that was never set, gives no address. */
void touches_cudnnFusedOpsExecute(struct call *call, int variant, cudnnHandle_t handle, const cudnnFusedOpsPlan_t plan,
                                  cudnnFusedOpsVariantParamPack_t varPack) {
    static const unsigned char modes[] = {
#include "cudnn_labels.h"
    };
    pfn_cudnnGetFusedOpsVariantParamPackAttribute get = REAL(cudnnGetFusedOpsVariantParamPackAttribute, variant);
    size_t workspace = 0;
    (void)handle, (void)plan;
    if (!varPack || get(varPack, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &workspace) != CUDNN_STATUS_SUCCESS)
        workspace = 0;
    for (unsigned label = 0; varPack && label < sizeof modes; label++) {
        void *address = NULL;
        if (get(varPack, (cudnnFusedOpsVariantParamLabel_t)label, &address) != CUDNN_STATUS_SUCCESS)
            continue;
        if (label == CUDNN_PTR_WORKSPACE)
            call_touch(call, (addr_t)(uintptr_t)address, library_bytes((int64_t)workspace), 8, TOUCH_SCRATCH);
        else
            block(call, address, modes[label]);
    }
}
