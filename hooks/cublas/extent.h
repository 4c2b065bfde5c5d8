/* Matrices as cuBLAS takes them: columns of `rows` elements, one every `ld` elements. */
#ifndef ULMS_CUBLAS_EXTENT_H
#define ULMS_CUBLAS_EXTENT_H

#include "cublas/abi.h"
#include "library/extent.h"

static inline struct span cublas_matrix(int64_t ld, int64_t rows, int64_t cols) {
    return rows > 0 && cols > 0 ? (struct span){0, (cols - 1) * ld + rows, cols > 1 && ld > rows} : library_none();
}

/* A matrix of rows x cols once `trans` is applied to what is stored. */
static inline struct span cublas_turned(int64_t ld, int64_t rows, int64_t cols, cublasOperation_t trans) {
    bool as_stored = trans == CUBLAS_OP_N || trans == CUBLAS_OP_CONJG;
    return as_stored ? cublas_matrix(ld, rows, cols) : cublas_matrix(ld, cols, rows);
}

/* One triangle, with the diagonal. */
static inline struct span cublas_triangle(int64_t ld, int64_t n) {
    return library_part(cublas_matrix(ld, n, n));
}

/* One triangle, column behind column. */
static inline struct span cublas_packed(int64_t n) {
    return n > 0 ? library_count(n * (n + 1) / 2) : library_none();
}

/* Of a rows x cols matrix, whose element (i, j) lies at origin + i - j + j * step, those with first <= i - j <= last.
 * Among the diagonals, the one nearest to the main one begins first, and the one nearest to the last corner ends last.
 */
static inline struct span cublas_diagonals(int64_t origin, int64_t step, int64_t rows, int64_t cols, int64_t first,
                                           int64_t last) {
    if (rows <= 0 || cols <= 0 || first > last || first >= rows || last <= -cols)
        return library_none();
    int64_t begins = library_larger(first, library_smaller(last, 0));
    int64_t ends = library_larger(first, library_smaller(last, rows - cols));
    return library_part((struct span){origin + begins + library_larger(-begins, 0) * step,
                                      origin + ends + (library_smaller(cols, rows - ends) - 1) * step + 1, false});
}

/* A band matrix: each column's part of the band is one of the array, and the diagonal a row. */
static inline struct span cublas_banded(int64_t ld, int64_t rows, int64_t cols, int64_t below, int64_t above) {
    return cublas_diagonals(above, ld, rows, cols, -above, below);
}

/* One triangle of a band matrix; a diagonal of ones is not looked at. */
static inline struct span cublas_banded_triangle(cublasFillMode_t uplo, cublasDiagType_t diag, int64_t ld, int64_t n,
                                                 int64_t width) {
    int64_t nearest = diag == CUBLAS_DIAG_UNIT;
    return uplo == CUBLAS_FILL_MODE_LOWER ? cublas_diagonals(0, ld, n, n, nearest, width)
                                          : cublas_diagonals(width, ld, n, n, -width, -nearest);
}

/* One triangle, without the diagonal where that is all ones. */
static inline struct span cublas_triangular(cublasFillMode_t uplo, cublasDiagType_t diag, int64_t ld, int64_t n) {
    int64_t nearest = diag == CUBLAS_DIAG_UNIT;
    return uplo == CUBLAS_FILL_MODE_LOWER ? cublas_diagonals(0, ld + 1, n, n, nearest, n - 1)
                                          : cublas_diagonals(0, ld + 1, n, n, 1 - n, -nearest);
}

/* The same, column behind column: the diagonal has both ends. */
static inline struct span cublas_packed_triangular(cublasDiagType_t diag, int64_t n) {
    struct span all = cublas_packed(n);
    if (diag != CUBLAS_DIAG_UNIT)
        return all;
    return n > 1 ? library_part((struct span){all.low + 1, all.high - 1, false}) : library_none();
}

/* The order of the matrix that stands on one side of an m x n matrix. */
static inline int64_t cublas_beside(cublasSideMode_t side, int64_t m, int64_t n) {
    return side == CUBLAS_SIDE_LEFT ? m : n;
}

/* The lengths of x and y in y = op(A) x, A of m x n. */
static inline int64_t cublas_length_x(cublasOperation_t trans, int64_t m, int64_t n) {
    return trans == CUBLAS_OP_N ? n : m;
}

static inline int64_t cublas_length_y(cublasOperation_t trans, int64_t m, int64_t n) {
    return trans == CUBLAS_OP_N ? m : n;
}

/* The old interface spells options. */
static inline cublasOperation_t cublas_operation(char letter) {
    bool as_stored = letter == 'N' || letter == 'n';
    return as_stored ? CUBLAS_OP_N : CUBLAS_OP_T;
}

static inline cublasFillMode_t cublas_fill_of(char letter) {
    return letter == 'L' || letter == 'l' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}

static inline cublasDiagType_t cublas_diag_of(char letter) {
    return letter == 'U' || letter == 'u' ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
}

static inline cublasSideMode_t cublas_side_of(char letter) {
    return letter == 'R' || letter == 'r' ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
}

/* The type of alpha and beta. */
static inline cudaDataType_t cublas_scale(cublasComputeType_t compute, cudaDataType_t type) {
    bool complex =
        type == CUDA_C_32F || type == CUDA_C_64F || type == CUDA_C_8I || type == CUDA_C_16F || type == CUDA_C_16BF;
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
        return complex ? CUDA_C_64F : CUDA_R_64F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return CUDA_R_32I;
    default:
        return complex ? CUDA_C_32F : CUDA_R_32F;
    }
}

/* True where the handle says that scalars and results are in device memory; also when the handle is none. */
bool cublas_on_device(int variant, cublasHandle_t handle);

#endif
