#include "library/lt_scale.h"

static int64_t up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* One factor for `block` elements along the inner dimension, in tiles of 128 x 4 factors of one byte. */
static int64_t tiles(int64_t inner, int64_t outer, int64_t block) {
    return up(up(inner, block) / block, 4) * up(outer, 128);
}

struct span lt_scale(cublasLtMatmulMatrixScale_t mode, const struct lt_layout *l, int64_t outer) {
    bool by_rows = l->order == CUBLASLT_ORDER_ROW;
    int64_t inner = by_rows ? l->cols : l->rows, other = by_rows ? l->rows : l->cols;
    int64_t depth = outer == inner ? other : inner; /* of the product */
    switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
        return library_bytes(tiles(inner, other, 16) * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0:
        return library_bytes(tiles(inner, other, 32) * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
        return library_bytes(4 * outer * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
        return library_bytes(4 * up(other, 4) * (up(inner, 128) / 128) * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
        return library_bytes(4 * up(up(inner, 128) / 128, 4) * (up(other, 128) / 128) * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_PER_BATCH_SCALAR_32F:
        return library_bytes(4 * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_MN_K4_UE8M0:
        return library_bytes(4 * up(outer, 4) * (up(depth, 512) / 512) * l->count);
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_MN_K4_UE8M0:
        return library_bytes(4 * up(outer, 4) * (up(depth, 128) / 128) * l->count);
    default:
        return library_bytes(4);
    }
}
