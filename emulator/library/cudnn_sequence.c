/* Descriptors of sequences and of losses over them, and packs of fused operations. */
#include <stdlib.h>
#include <string.h>

#include "library/cudnn_status.h"

enum { AXES = CUDNN_SEQDATA_DIM_COUNT };

struct cudnnRNNDataStruct {
    cudnnDataType_t type;
    cudnnRNNDataLayout_t layout;
    int longest, batch, width, *lengths;
};

struct cudnnSeqDataStruct {
    cudnnDataType_t type;
    int sizes[AXES], axes[AXES];
    size_t n;
    int *lengths;
};

struct cudnnCTCLossStruct {
    int longest; /* label; 0 as long as it is not set, as version 9.28 has it */
};

struct cudnnFusedOpsVariantParamStruct {
    uint64_t value[128]; /* by label; an address or a size */
};

static int *copy(const int *lengths, size_t n) {
    int *own = malloc(n * sizeof *own + 1);
    return own ? memcpy(own, lengths, n * sizeof *own) : NULL;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *out) {
    return made(*out = calloc(1, sizeof **out));
}

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t d) {
    if (d)
        free(d->lengths);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type, cudnnRNNDataLayout_t layout,
                                        int longest, int batch, int width, const int *lengths, void *padding) {
    (void)padding;
    if (!d || longest < 1 || batch < 1 || width < 1)
        return BAD_PARAM;
    free(d->lengths);
    *d = (struct cudnnRNNDataStruct){type, layout, longest, batch, width, copy(lengths, (size_t)batch)};
    return made(d->lengths);
}

cudnnStatus_t cudnnGetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t *type, cudnnRNNDataLayout_t *layout,
                                        int *longest, int *batch, int *width, int room, int *lengths, void *padding) {
    if (!padding)
        return BAD_PARAM;
    *type = d->type;
    *layout = d->layout;
    *longest = d->longest;
    *batch = d->batch;
    *width = d->width;
    for (int i = 0; i < room && i < d->batch; i++)
        lengths[i] = d->lengths[i];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateSeqDataDescriptor(cudnnSeqDataDescriptor_t *out) {
    return made(*out = calloc(1, sizeof **out));
}

cudnnStatus_t cudnnDestroySeqDataDescriptor(cudnnSeqDataDescriptor_t d) {
    if (d)
        free(d->lengths);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetSeqDataDescriptor(cudnnSeqDataDescriptor_t d, cudnnDataType_t type, int n, const int *sizes,
                                        const cudnnSeqDataAxis_t *axes, size_t lengths, const int *length,
                                        void *padding) {
    (void)padding;
    if (!d || n != AXES)
        return BAD_PARAM;
    free(d->lengths);
    *d = (struct cudnnSeqDataStruct){.type = type, .n = lengths, .lengths = copy(length, lengths)};
    memcpy(d->sizes, sizes, sizeof d->sizes);
    memcpy(d->axes, axes, sizeof d->axes);
    return made(d->lengths);
}

cudnnStatus_t cudnnGetSeqDataDescriptor(const cudnnSeqDataDescriptor_t d, cudnnDataType_t *type, int *n, int room,
                                        int *sizes, cudnnSeqDataAxis_t *axes, size_t *lengths, size_t lengths_room,
                                        int *length, void *padding) {
    if (!padding)
        return BAD_PARAM;
    *type = d->type;
    *n = AXES;
    for (int i = 0; i < AXES && i < room; i++) {
        sizes[i] = d->sizes[i];
        axes[i] = d->axes[i];
    }
    *lengths = d->n;
    for (size_t i = 0; i < d->n && i < lengths_room; i++)
        length[i] = d->lengths[i];
    return CUDNN_STATUS_SUCCESS;
}

DESCRIPTOR(CTCLoss)

cudnnStatus_t cudnnSetCTCLossDescriptor_v8(cudnnCTCLossDescriptor_t d, cudnnDataType_t type,
                                           cudnnLossNormalizationMode_t normalization, cudnnNanPropagation_t gradient,
                                           int longest) {
    (void)type, (void)normalization, (void)gradient;
    d->longest = longest;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCTCLossDescriptor_v8(cudnnCTCLossDescriptor_t d, cudnnDataType_t *type,
                                           cudnnLossNormalizationMode_t *normalization, cudnnNanPropagation_t *gradient,
                                           int *longest) {
    *type = CUDNN_DATA_FLOAT;
    *normalization = *gradient = 0;
    *longest = d->longest;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFusedOpsVariantParamPack(cudnnFusedOpsVariantParamPack_t *out, int operations) {
    (void)operations;
    return made(*out = calloc(1, sizeof **out));
}

cudnnStatus_t cudnnDestroyFusedOpsVariantParamPack(cudnnFusedOpsVariantParamPack_t pack) {
    free(pack);
    return CUDNN_STATUS_SUCCESS;
}

/* An address is given itself, a number by its address. */
cudnnStatus_t cudnnSetFusedOpsVariantParamPackAttribute(cudnnFusedOpsVariantParamPack_t pack,
                                                        cudnnFusedOpsVariantParamLabel_t label, void *value) {
    if (!pack || (unsigned)label >= sizeof pack->value / sizeof *pack->value)
        return BAD_PARAM;
    pack->value[label] =
        label < CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES ? (uint64_t)(uintptr_t)value : *(const uint64_t *)value;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFusedOpsVariantParamPackAttribute(const cudnnFusedOpsVariantParamPack_t pack,
                                                        cudnnFusedOpsVariantParamLabel_t label, void *value) {
    if ((unsigned)label >= sizeof pack->value / sizeof *pack->value)
        return BAD_PARAM;
    memcpy(value, &pack->value[label], sizeof pack->value[label]);
    return CUDNN_STATUS_SUCCESS;
}
