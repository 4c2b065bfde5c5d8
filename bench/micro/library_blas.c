/* C = A B in several of cuBLAS's forms; through cublasLt with bias, auxiliary matrix and workspace. */
#include "library_calls.h"

enum { SIDE = 16, COUNT = 4, WORKSPACE = 512 };

static const float one = 1, zero;
static cublasHandle_t handle;
static cublasLtMatmulDesc_t product;
static cublasLtMatrixLayout_t layout;
static const struct operands *first_set;
static float *(*addresses)[3 * COUNT]; /* of matrices, for each set: in device memory */

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

__attribute__((noinline)) static void call_sgemm_array(void *function, const struct operands *o) {
    float **at = addresses[o - first_set];
    ((pfn_cublasSgemmBatched)function)(handle, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one,
                                       (const float *const *)at, SIDE, (const float *const *)(at + COUNT), SIDE, &zero,
                                       at + 2 * COUNT, SIDE, COUNT);
}

__attribute__((noinline)) static void call_matmul(void *function, const struct operands *o) {
    ((pfn_cublasLtMatmul)function)(NULL, product, &one, o->at[0], layout, o->at[1], layout, &zero, o->at[2], layout,
                                   o->at[2], layout, NULL, o->at[3], WORKSPACE, NULL);
}

static void set(cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes) {
    check((int)cublasLtMatmulDescSetAttribute(product, (int)attribute, value, bytes));
}

/* Matrices lie side by side, as most do; their addresses come to the device in a copy for each set. */
static void copy_addresses(const struct operands *sets) {
    CUdeviceptr memory;
    float *at[3 * COUNT];
    check(((pfn_cuMemAlloc_v2)hooked("cuMemAlloc_v2"))(&memory, SETS * sizeof at));
    for (size_t s = 0; s < SETS; s++) {
        for (int i = 0; i < 3 * COUNT; i++)
            at[i] = (float *)sets[s].at[i / COUNT] + i % COUNT * SIDE * SIDE;
        check(((pfn_cuMemcpyHtoD_v2)hooked("cuMemcpyHtoD_v2"))(memory + s * sizeof at, at, sizeof at));
    }
    first_set = sets;
    addresses = (float *(*)[3 * COUNT])(uintptr_t)memory;
}

const struct bench_call *blas_calls(const struct operands *sets) {
    static const struct bench_call calls[] = {{"cublasSgemm_v2", call_sgemm},
                                              {"cublasGemmEx", call_gemm_ex},
                                              {"cublasGemmStridedBatchedEx", call_gemm_batched},
                                              {"cublasSgemmBatched", call_sgemm_array},
                                              {"cublasLtMatmul", call_matmul},
                                              {0}};
    uint32_t epilogue = CUBLASLT_EPILOGUE_GELU_AUX | CUBLASLT_EPILOGUE_BIAS;
    int64_t ld = SIDE;
    copy_addresses(sets);
    check((int)cublasCreate_v2(&handle));
    check((int)cublasLtMatrixLayoutCreate(&layout, CUDA_R_16F, SIDE, SIDE, SIDE));
    check((int)cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &sets[0].at[4], sizeof sets[0].at[4]);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &sets[0].at[5], sizeof sets[0].at[5]);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
    return calls;
}
