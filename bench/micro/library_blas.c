/* C = A B in several of cuBLAS's forms; through cublasLt with bias, auxiliary matrix and workspace. */
#include "library_calls.h"

enum { SIDE = 16, COUNT = 4, WORKSPACE = 512 };

static const float one = 1, zero;
static cublasHandle_t handle;
static cublasLtMatmulDesc_t product;
static cublasLtMatrixLayout_t layout;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute, cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute, const void *value,
                                              size_t bytes);

__attribute__((noinline)) static void call_sgemm(void *function, const struct operands *o) {
    ((pfn_cublasSgemm_v2)function)(handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, o->at[0], SIDE, o->at[1],
                                   SIDE, &zero, o->at[2], SIDE);
}

__attribute__((noinline)) static void call_gemm_ex(void *function, const struct operands *o) {
    ((pfn_cublasGemmEx)function)(handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, o->at[0], CUDA_R_16F, SIDE,
                                 o->at[1], CUDA_R_16F, SIDE, &zero, o->at[2], CUDA_R_16F, SIDE, CUBLAS_COMPUTE_32F,
                                 CUBLAS_GEMM_DEFAULT);
}

__attribute__((noinline)) static void call_gemm_batched(void *function, const struct operands *o) {
    enum { APART = SIDE * SIDE };
    ((pfn_cublasGemmStridedBatchedEx)function)(handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, o->at[0],
                                               CUDA_R_16F, SIDE, APART, o->at[1], CUDA_R_16F, SIDE, APART, &zero,
                                               o->at[2], CUDA_R_16F, SIDE, APART, COUNT, CUBLAS_COMPUTE_32F,
                                               CUBLAS_GEMM_DEFAULT);
}

__attribute__((noinline)) static void call_matmul(void *function, const struct operands *o) {
    ((pfn_cublasLtMatmul)function)(NULL, product, &one, o->at[0], layout, o->at[1], layout, &zero, o->at[2], layout,
                                   o->at[2], layout, NULL, o->at[3], WORKSPACE, NULL);
}

static void set(cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes) {
    check((int)cublasLtMatmulDescSetAttribute(product, (int)attribute, value, bytes));
}

const struct bench_call *blas_calls(const struct operands *sets) {
    static const struct bench_call calls[] = {{"cublasSgemm_v2", call_sgemm},
                                              {"cublasGemmEx", call_gemm_ex},
                                              {"cublasGemmStridedBatchedEx", call_gemm_batched},
                                              {"cublasLtMatmul", call_matmul},
                                              {0}};
    uint32_t epilogue = CUBLASLT_EPILOGUE_GELU_AUX | CUBLASLT_EPILOGUE_BIAS;
    int64_t ld = SIDE;
    check((int)cublasCreate_v2(&handle));
    check((int)cublasLtMatrixLayoutCreate(&layout, CUDA_R_16F, SIDE, SIDE, SIDE));
    check((int)cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &sets[0].at[4], sizeof sets[0].at[4]);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &sets[0].at[5], sizeof sets[0].at[5]);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    return calls;
}
