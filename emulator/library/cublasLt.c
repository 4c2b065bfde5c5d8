/* cublasLt's descriptors: attributes kept as they were set. One that was never set has its default, and a size of its
 * own, as in the vendor's header. */
#include <stdlib.h>
#include <string.h>

#include "cublas/abi.h"

enum { ATTRIBUTES = 48 };

struct attribute {
    uint8_t bytes; /* 0: there is no such attribute */
    uint64_t value;
};

struct descriptor {
    struct attribute attribute[ATTRIBUTES];
};

CUstream lookalike_stream_cublasLt(cublasLtHandle_t handle) {
    (void)handle;
    return NULL;
}

static cublasStatus_t make(void **out, const struct descriptor *defaults) {
    struct descriptor *d = malloc(sizeof *d);
    if (!d)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *d = *defaults;
    *out = d;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *descriptor, unsigned attribute, const void *value, size_t bytes) {
    struct descriptor *d = descriptor;
    if (attribute >= ATTRIBUTES || d->attribute[attribute].bytes == 0 || d->attribute[attribute].bytes != bytes)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(&d->attribute[attribute].value, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const void *descriptor, unsigned attribute, void *value, size_t bytes, size_t *written) {
    const struct descriptor *d = descriptor;
    if (attribute >= ATTRIBUTES || d->attribute[attribute].bytes == 0 || d->attribute[attribute].bytes != bytes)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(value, &d->attribute[attribute].value, bytes == 4 ? 4 : 8);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* What there is of each descriptor beside what makes it. */
#define DESCRIPTOR(kind, attribute_type)                                                                               \
    cublasStatus_t cublasLt##kind##Destroy(cublasLt##kind##_t d) {                                                     \
        free(d);                                                                                                       \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublasLt##kind##SetAttribute(cublasLt##kind##_t d, attribute_type a, const void *value,             \
                                                size_t bytes) {                                                        \
        return set(d, a, value, bytes);                                                                                \
    }                                                                                                                  \
    cublasStatus_t cublasLt##kind##GetAttribute(cublasLt##kind##_t d, attribute_type a, void *value, size_t bytes,     \
                                                size_t *written) {                                                     \
        return get(d, a, value, bytes, written);                                                                       \
    }

DESCRIPTOR(MatrixLayout, cublasLtMatrixLayoutAttribute_t)
DESCRIPTOR(MatmulDesc, cublasLtMatmulDescAttributes_t)
DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDescAttributes_t)

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
    const struct descriptor layout = {.attribute = {{4, type},
                                                    {4, 0},
                                                    {8, rows},
                                                    {8, cols},
                                                    {8, (uint64_t)ld},
                                                    {4, 1},
                                                    {8, 0},
                                                    {8, 0},
                                                    {4, 0},
                                                    {8, 0},
                                                    {8, 0},
                                                    {8, 0},
                                                    {4, 0},
                                                    {4, 0}}};
    return make((void **)out, &layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale) {
    struct descriptor product = {.attribute = {{4, compute}, {4, scale}}};
    static const unsigned char four[] = {2, 3, 4, 5, 6, 15, 31, 32, 33, 34, 35, 37};
    static const unsigned char eight[] = {8, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21, 23, 24, 36, 39, 40};
    for (unsigned i = 0; i < sizeof four; i++)
        product.attribute[four[i]].bytes = 4;
    for (unsigned i = 0; i < sizeof eight; i++)
        product.attribute[eight[i]].bytes = 8;
    product.attribute[CUBLASLT_MATMUL_DESC_EPILOGUE] = (struct attribute){4, 1};
    product.attribute[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE] = (struct attribute){4, 0xffffffff};
    product.attribute[CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = (struct attribute){4, 0xffffffff};
    return make((void **)out, &product);
}

cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *out, cudaDataType scale) {
    const struct descriptor transform = {.attribute = {{4, scale}, {4, 0}, {4, 0}, {4, 0}}};
    return make((void **)out, &transform);
}
