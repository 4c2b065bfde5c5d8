/* A cuBLAS whose gemm goes in steps, as real ones do: it calls another function of the library, then launches a kernel
 * that holds no address, then one that holds an address inside C and the handle's workspace. */
#include "cublas/abi.h"
#include "library/lookalike.h"

CUstream lookalike_stream_cublas(cublasHandle_t handle);
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy);
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                              const float *beta, float *C, int ldc);

/* A kernel of the program's own. */
cublasStatus_t cublasLaunch(cublasHandle_t handle, const void *a, const void *b, const void *c);
cublasStatus_t cublasLaunch(cublasHandle_t handle, const void *a, const void *b, const void *c) {
    const void *const held[] = {a, b, c};
    bool ran = lookalike_run(lookalike_stream_cublas(handle), held, 3);
    return ran ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Fails when n is negative, and launches nothing when it is 0. */
cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float *x, int incx, float *y, int incy) {
    const void *const held[] = {x, y};
    (void)incx, (void)incy;
    if (n < 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (n > 0)
        lookalike_run(lookalike_stream_cublas(handle), held, 2);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                              const float *beta, float *C, int ldc) {
    CUstream stream = lookalike_stream_cublas(handle);
    const void *const held[] = {(const char *)C + 64, alpha};
    (void)transa, (void)transb, (void)m, (void)n, (void)k, (void)lda, (void)ldb, (void)beta, (void)ldc;
    if (cublasScopy_v2(handle, 0, A, 1, C, 1) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    lookalike_run(stream, NULL, 0);
    cublasScopy_v2(handle, 5, B, 1, C, 1);
    lookalike_run(stream, held, 2);
    return CUBLAS_STATUS_SUCCESS;
}
