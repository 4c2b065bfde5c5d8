/* The memory of a tensor, from its numbers alone. Calls no library. */
#ifndef ULMS_CUDNN_SHAPE_H
#define ULMS_CUDNN_SHAPE_H

#include "cudnn/abi.h"
#include "cudnn/extent.h"

/* Elements from the first to the last of a tensor of n <= CUDNN_DIM_MAX dimensions. It has holes unless its elements
 * lie side by side, in whatever order of the dimensions. */
struct span shape_span(int n, const int64_t *sizes, const int64_t *strides);
struct span shape_span_int(int n, const int *sizes, const int *strides);
/* The bytes in which elements of `bits` bits lie. */
struct span shape_bytes(struct span elements, unsigned bits);

#endif
