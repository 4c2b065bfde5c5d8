/* Factors that scale matrices of narrow numbers. */
#ifndef ULMS_LT_SCALE_H
#define ULMS_LT_SCALE_H

#include "library/lt_layout.h"

/* The factors of a matrix, in bytes; outer: how many rows of A, or columns of B, the product has. */
struct span lt_scale(cublasLtMatmulMatrixScale_t mode, const struct lt_layout *l, int64_t outer);

#endif
