/* Descriptors of tensors, filters and convolutions. Formats, vectors of elements, sizes in bytes as the real library
 * has them (versions 8.9 and 9.28 were asked). */
#include <stdlib.h>
#include <string.h>

#include "cudnn/extent.h"
#include "library/cudnn_status.h"

enum { NCHW, NHWC, NCHW_VECT_C };

struct cudnnTensorStruct {
    cudnnDataType_t type;
    int n, sizes[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
    int vector; /* elements of a vector, of which strides count; 1: of elements */
};

struct cudnnFilterStruct {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int n, sizes[CUDNN_DIM_MAX];
};

struct cudnnConvolutionStruct {
    int n, padding[CUDNN_DIM_MAX], step[CUDNN_DIM_MAX], dilation[CUDNN_DIM_MAX];
};

/* Bytes, and elements when it stands for several. */
static size_t element_bytes(cudnnDataType_t type) {
    static const unsigned char bytes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static int vector_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_INT8x32 ? 32 : type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 ? 4 : 1;
}

/* --- tensors --- */

DESCRIPTOR(Tensor)

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int n, const int *sizes,
                                         const int *strides) {
    if (!t || element_bytes(type) == 0 || n < 1 || n > CUDNN_DIM_MAX)
        return BAD_PARAM;
    for (int i = 0; i < n; i++)
        if (sizes[i] <= 0 || strides[i] == 0)
            return BAD_PARAM;
    *t = (struct cudnnTensorStruct){.type = type, .n = n, .vector = 1};
    memcpy(t->sizes, sizes, (size_t)n * sizeof *sizes);
    memcpy(t->strides, strides, (size_t)n * sizeof *strides);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type,
                                           int n, const int *sizes) {
    int strides[CUDNN_DIM_MAX], vector = format == NCHW_VECT_C ? vector_of(type) : 1, step = 1;
    if (n < 3 || n > CUDNN_DIM_MAX)
        return BAD_PARAM;
    if (format == NHWC) { /* channels nearest, then as the others */
        strides[1] = 1;
        step = sizes[1];
    }
    for (int i = n - 1; i >= 0; i--)
        if (format != NHWC || i != 1) {
            strides[i] = step;
            step *= i == 1 ? sizes[i] / vector : sizes[i];
        }
    cudnnStatus_t status = cudnnSetTensorNdDescriptor(t, type, n, sizes, strides);
    if (status == CUDNN_STATUS_SUCCESS)
        t->vector = vector;
    return status;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w) {
    return cudnnSetTensorNdDescriptorEx(t, format, type, 4, (const int[]){n, c, h, w});
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t t, int room, cudnnDataType_t *type, int *n,
                                         int *sizes, int *strides) {
    if (!t)
        abort(); /* as version 8 */
    *type = t->type;
    *n = t->n;
    for (int i = 0; i < t->n && i < room; i++) {
        sizes[i] = t->sizes[i];
        strides[i] = t->strides[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t t, size_t *bytes) {
    size_t last = 0;
    for (int i = 0; i < t->n; i++)
        last += (size_t)(i == 1 ? t->sizes[i] / t->vector - 1 : t->sizes[i] - 1) * (size_t)abs(t->strides[i]);
    *bytes = t->n ? (last + 1) * element_bytes(t->type) : 0;
    return CUDNN_STATUS_SUCCESS;
}

/* --- filters --- */

DESCRIPTOR(Filter)

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int n, const int *sizes) {
    if (!f || n < 3 || n > CUDNN_DIM_MAX)
        return BAD_PARAM;
    *f = (struct cudnnFilterStruct){.type = type, .format = format, .n = n};
    memcpy(f->sizes, sizes, (size_t)n * sizeof *sizes);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t f, int room, cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *n, int *sizes) {
    *type = f->type;
    *format = f->format;
    *n = f->n;
    for (int i = 0; i < f->n && i < room; i++)
        sizes[i] = f->sizes[i];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t f, size_t *bytes) {
    *bytes = element_bytes(f->type) / (size_t)(f->format == NCHW_VECT_C ? vector_of(f->type) : 1);
    for (int i = 0; i < f->n; i++)
        *bytes *= (size_t)f->sizes[i];
    return CUDNN_STATUS_SUCCESS;
}

/* --- convolutions --- */

DESCRIPTOR(Convolution)

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int n, const int *padding,
                                              const int *step, const int *dilation, int mode, cudnnDataType_t type) {
    (void)mode, (void)type;
    if (!c || n < 1 || n > CUDNN_DIM_MAX - 2)
        return BAD_PARAM;
    c->n = n;
    memcpy(c->padding, padding, (size_t)n * sizeof *padding);
    memcpy(c->step, step, (size_t)n * sizeof *step);
    memcpy(c->dilation, dilation, (size_t)n * sizeof *dilation);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t c,
                                                    const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t f,
                                                    int n, int *sizes) {
    if (n != x->n || n != f->n || n != c->n + 2)
        return BAD_PARAM;
    sizes[0] = x->sizes[0];
    sizes[1] = f->sizes[0];
    for (int i = 0; i < c->n; i++) {
        int reach = (f->sizes[i + 2] - 1) * c->dilation[i] + 1;
        sizes[i + 2] = 1 + (x->sizes[i + 2] + 2 * c->padding[i] - reach) / c->step[i];
    }
    return CUDNN_STATUS_SUCCESS;
}
