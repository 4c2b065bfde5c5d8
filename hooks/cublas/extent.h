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
