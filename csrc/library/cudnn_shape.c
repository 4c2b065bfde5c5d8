#include "library/cudnn_shape.h"

unsigned cudnn_bits(cudnnDataType_t type) {
    static const uint16_t bits[] = {
        [CUDNN_DATA_FLOAT] = 32,         [CUDNN_DATA_DOUBLE] = 64,      [CUDNN_DATA_HALF] = 16,
        [CUDNN_DATA_INT8] = 8,           [CUDNN_DATA_INT32] = 32,       [CUDNN_DATA_INT8x4] = 32,
        [CUDNN_DATA_UINT8] = 8,          [CUDNN_DATA_UINT8x4] = 32,     [CUDNN_DATA_INT8x32] = 256,
        [CUDNN_DATA_BFLOAT16] = 16,      [CUDNN_DATA_INT64] = 64,       [CUDNN_DATA_BOOLEAN] = 1,
        [CUDNN_DATA_FP8_E4M3] = 8,       [CUDNN_DATA_FP8_E5M2] = 8,     [CUDNN_DATA_FAST_FLOAT_FOR_FP8] = 32,
        [CUDNN_DATA_FP8_E8M0] = 8,       [CUDNN_DATA_FP4_E2M1] = 4,     [CUDNN_DATA_INT4] = 4,
        [CUDNN_DATA_UINT4] = 4,          [CUDNN_DATA_UINT32] = 32,      [CUDNN_DATA_COMPLEX_FP32] = 64,
        [CUDNN_DATA_COMPLEX_FP64] = 128, [CUDNN_DATA_BYTE_BOOLEAN] = 8, [CUDNN_DATA_FP8_E5M3] = 8,
    };
    return (unsigned)type < sizeof bits / sizeof *bits ? bits[type] : 0;
}

int64_t cudnn_size(cudnnDataType_t type) {
    return cudnn_bits(type) / 8;
}

static int64_t apart(int64_t stride) {
    return stride < 0 ? -stride : stride;
}

/* Of int64_t where `wide`, else of int. */
static inline int64_t number(const void *list, int i, bool wide) {
    return wide ? ((const int64_t *)list)[i] : ((const int *)list)[i];
}

/* Row by row, as most are. Elements, or 0. */
static inline int64_t in_order(int n, const void *sizes, const void *strides, bool wide) {
    int64_t dense = 1;
    for (int i = n - 1; i >= 0; i--) {
        int64_t size = number(sizes, i, wide);
        if (size <= 0 || (size > 1 && number(strides, i, wide) != dense))
            return 0;
        dense *= size;
    }
    return n > 0 ? dense : 0;
}

struct span shape_span(int n, const int64_t *sizes, const int64_t *strides) {
    struct span all = library_count(1);
    int order[CUDNN_DIM_MAX], several = 0; /* dimensions of more than one element, nearest neighbours first */
    int64_t dense = in_order(n, sizes, strides, true);
    if (dense)
        return library_count(dense);
    for (int i = 0; i < n; i++) {
        if (sizes[i] <= 0)
            return library_none();
        if (sizes[i] == 1)
            continue;
        int64_t way = (sizes[i] - 1) * strides[i];
        *(way < 0 ? &all.low : &all.high) += way;
        int at = several++;
        for (; at > 0 && apart(strides[order[at - 1]]) > apart(strides[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    dense = 1;
    for (int i = 0; i < several && !all.holes; i++) {
        all.holes = apart(strides[order[i]]) != dense;
        dense *= sizes[order[i]];
    }
    return n > 0 ? all : library_none();
}

struct span shape_span_int(int n, const int *sizes, const int *strides) {
    int64_t wide_sizes[CUDNN_DIM_MAX], wide_strides[CUDNN_DIM_MAX], dense = in_order(n, sizes, strides, false);
    if (dense)
        return library_count(dense);
    for (int i = 0; i < n; i++) {
        wide_sizes[i] = sizes[i];
        wide_strides[i] = strides[i];
    }
    return shape_span(n, wide_sizes, wide_strides);
}

struct span shape_bytes(struct span elements, unsigned bits) {
    int64_t low = elements.low * (int64_t)bits, high = elements.high * (int64_t)bits;
    return (struct span){low >> 3, (high + 7) >> 3, elements.holes};
}
