/* A cuBLAS with a product of matrix and vector that reads and writes what the real one would, and computes of it a
 * sample: whatever the matrix has lost shows in the result. Where UM_SPEED_READS is set it reads the matrix so often,
 * from wherever that lies. */
#include "cublas/abi.h"
#include "emu.h"
#include "library/lookalike.h"

#include <stdlib.h>

CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra);
CUstream lookalike_stream_cublas(cublasHandle_t handle);
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t trans, int m, int n, const float *alpha,
                              const float *A, int lda, const float *x, int incx, const float *beta, float *y, int incy);

enum { SAMPLE = 65536 }; /* words */

/* gemv(y, A, x, m, n). Whole numbers, so that every bit counts. */
static void gemv(struct emu_launch *l) {
    uint64_t m = EMU_ARG(l, uint32_t, 3), n = EMU_ARG(l, uint32_t, 4), samples = (m * n + SAMPLE - 1) / SAMPLE;
    const uint32_t *a = NULL;
    const char *reads = getenv("UM_SPEED_READS");
    for (int i = reads ? atoi(reads) : 1; i > 0; i--)
        a = emu_use(l, EMU_ARG(l, uint64_t, 1), m * n * sizeof *a, EMU_READ);
    const uint32_t *x = emu_use(l, EMU_ARG(l, uint64_t, 2), n * sizeof *x, EMU_READ);
    uint32_t *y = emu_use(l, EMU_ARG(l, uint64_t, 0), m * sizeof *y, EMU_WRITE);
    for (uint64_t i = 0; i < m; i++)
        y[i] = 31 * x[i % n] + a[i % samples * SAMPLE];
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}};
static const struct emu_kernel kernel = {"gemv", parameters, 5, gemv};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

/* Column-major and dense, alpha 1, beta 0. */
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t trans, int m, int n, const float *alpha,
                              const float *A, int lda, const float *x, int incx, const float *beta, float *y,
                              int incy) {
    static CUfunction function;
    CUmodule module;
    if (trans != 0 || *alpha != 1 || *beta != 0 || lda != m || incx != 1 || incy != 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!function && (cuModuleLoadData(&module, &image) || cuModuleGetFunction(&function, module, "gemv")))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    void *arguments[] = {&y, &A, &x, &m, &n};
    CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, lookalike_stream_cublas(handle), arguments, NULL);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
