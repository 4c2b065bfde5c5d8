/* Calls of cuBLAS in a loop, for test_library_bench.py: C = A B in half precision, and the same through cublasLt with
 * bias and GELU, operands picked at random among many blocks. */
#include <stdlib.h>
#include <time.h>

#include "cublas/abi.h"

enum { SETS = 64, BATCH = 256, SIDE = 16, BLOCK = SIDE * SIDE * 2, OPERANDS = 5 };

typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                        const void *, const void *, cudaDataType, int, const void *, cudaDataType, int,
                                        const void *, void *, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
typedef cublasStatus_t (*matmul_function)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                                          cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t, const void *,
                                          const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
                                          const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);

struct bench_blas {
    cublasHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t layout;
};

static void *operand[SETS][OPERANDS];
static const float one = 1, zero;

/* Every set holds five of the blocks that start at base. */
void bench_operands(CUdeviceptr base, unsigned long blocks) {
    srand(1);
    for (int s = 0; s < SETS; s++)
        for (int o = 0; o < OPERANDS; o++) {
            unsigned long block = ((unsigned long)rand() << 16 ^ (unsigned long)rand()) % blocks;
            operand[s][o] = (void *)(uintptr_t)(base + block * BLOCK);
        }
}

static void gemm(void *function, const struct bench_blas *b, void *const *at) {
    ((gemm_function)function)(b->handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, at[0], CUDA_R_16F, SIDE,
                              at[1], CUDA_R_16F, SIDE, &zero, at[2], CUDA_R_16F, SIDE, CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT);
}

static void matmul(void *function, const struct bench_blas *b, void *const *at) {
    ((matmul_function)function)(NULL, b->product, &one, at[0], b->layout, at[1], b->layout, &zero, at[2], b->layout,
                                at[2], b->layout, NULL, at[3], BLOCK, NULL);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds a call of gemm, or of matmul: the median over batches. */
double bench_call(void *function, int is_matmul, const struct bench_blas *blas, int batches) {
    void (*call)(void *, const struct bench_blas *, void *const *) = is_matmul ? matmul : gemm;
    double *took = malloc((size_t)batches * sizeof *took);
    for (int b = 0; b < batches; b++) {
        double start = now_ns();
        for (int i = 0; i < BATCH; i++)
            call(function, blas, operand[i % SETS]);
        took[b] = (now_ns() - start) / BATCH;
    }
    qsort(took, (size_t)batches, sizeof *took, ascending);
    double median = took[batches / 2];
    free(took);
    return median;
}
