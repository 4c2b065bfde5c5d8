/* cuDNN's handles and what it says of itself. */
#include <stdlib.h>

#include "cudnn/abi.h"
#include "library/cudnn_status.h"

struct cudnnContext {
    CUstream stream;
};

CUstream lookalike_stream_cudnn(cudnnHandle_t handle) {
    return handle ? handle->stream : NULL;
}

size_t cudnnGetVersion(void) {
    return CUDNN_ABI_VERSION;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    return made(*handle = calloc(1, sizeof **handle));
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t streamId) {
    if (!handle)
        return BAD_PARAM;
    handle->stream = streamId;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *streamId) {
    if (!handle)
        return BAD_PARAM;
    *streamId = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}
