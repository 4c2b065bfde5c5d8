/* Groups of matrices, one shape a group: lists in host memory say the shapes, arrays in device memory hold the
 * addresses. */
#include "library.h"
#include "library/call.h"

struct groups {
    const cublasOperation_t *transa, *transb;
    const void *m, *n, *k, *lda, *ldb, *ldc, *size; /* lists of int64_t where wide, else of int */
    const void *beta;                               /* one scalar a group */
    const void *A, *B, *C;
    cudaDataType_t a, b, c, scale;
    int64_t count;
    bool wide, beta_known;
};

static int64_t number(const struct groups *g, const void *list, int64_t i) {
    return g->wide ? ((const int64_t *)list)[i] : ((const int *)list)[i];
}

static bool reads_c(const struct groups *g, int64_t i) {
    return !g->beta_known || !library_is_zero((const char *)g->beta + i * library_bits(g->scale) / 8, g->scale);
}

/* The matrices of group i, whose addresses start behind `first` others. */
static void touch_group(struct call *call, const struct groups *g, int64_t i, int64_t first, int64_t size) {
    int64_t m = number(g, g->m, i), n = number(g, g->n, i), k = number(g, g->k, i);
    addr_t at = (addr_t)first * sizeof(addr_t);
    struct span a = cublas_turned(number(g, g->lda, i), m, k, g->transa[i]);
    struct span b = cublas_turned(number(g, g->ldb, i), k, n, g->transb[i]);
    struct span c = cublas_matrix(number(g, g->ldc, i), m, n);
    call_pointed(call, (addr_t)(uintptr_t)g->A + at, size, a, library_bits(g->a), TOUCH_READ);
    call_pointed(call, (addr_t)(uintptr_t)g->B + at, size, b, library_bits(g->b), TOUCH_READ);
    call_pointed(call, (addr_t)(uintptr_t)g->C + at, size, c, library_bits(g->c),
                 reads_c(g, i) ? TOUCH_UPDATE : TOUCH_WRITE);
}

static bool complete(const struct groups *g) {
    return g->transa && g->transb && g->m && g->n && g->k && g->lda && g->ldb && g->ldc && g->size;
}

static void touch_groups(struct call *call, const struct groups *g) {
    const void *const arrays[] = {g->A, g->B, g->C};
    int64_t total = 0;
    if (!complete(g)) /* the library will refuse it */
        return;
    for (int64_t i = 0; i < g->count; i++) {
        int64_t size = number(g, g->size, i);
        if (size <= 0)
            continue;
        touch_group(call, g, i, total, size);
        total += size;
    }
    for (int i = 0; i < 3; i++)
        call_touch(call, (addr_t)(uintptr_t)arrays[i], library_count(total), 8 * sizeof(addr_t), TOUCH_READ);
}

/* N: the type of sizes; T: of elements. */
#define TYPED(symbol, N, T, type)                                                                                      \
    void touches_##symbol(struct call *call, int variant, cublasHandle_t handle, const cublasOperation_t *transa,      \
                          const cublasOperation_t *transb, const N *m, const N *n, const N *k, const T *alpha,         \
                          const T *const *A, const N *lda, const T *const *B, const N *ldb, const T *beta,             \
                          T *const *C, const N *ldc, N count, const N *size) {                                         \
        (void)alpha;                                                                                                   \
        bool known = beta && !cublas_on_device(variant, handle);                                                       \
        struct groups g = {transa, transb, m, n,    k,    lda,  ldb,  ldc,   size,           beta,                     \
                           A,      B,      C, type, type, type, type, count, sizeof(N) == 8, known};                   \
        touch_groups(call, &g);                                                                                        \
    }

#define UNTYPED(symbol, N)                                                                                             \
    void touches_##symbol(struct call *call, int variant, cublasHandle_t handle, const cublasOperation_t *transa,      \
                          const cublasOperation_t *transb, const N *m, const N *n, const N *k, const void *alpha,      \
                          const void *const *A, cudaDataType_t Atype, const N *lda, const void *const *B,              \
                          cudaDataType_t Btype, const N *ldb, const void *beta, void *const *C, cudaDataType_t Ctype,  \
                          const N *ldc, N count, const N *size, cublasComputeType_t compute) {                         \
        (void)alpha;                                                                                                   \
        bool known = beta && !cublas_on_device(variant, handle);                                                       \
        struct groups g = {transa,                                                                                     \
                           transb,                                                                                     \
                           m,                                                                                          \
                           n,                                                                                          \
                           k,                                                                                          \
                           lda,                                                                                        \
                           ldb,                                                                                        \
                           ldc,                                                                                        \
                           size,                                                                                       \
                           beta,                                                                                       \
                           A,                                                                                          \
                           B,                                                                                          \
                           C,                                                                                          \
                           Atype,                                                                                      \
                           Btype,                                                                                      \
                           Ctype,                                                                                      \
                           cublas_scale(compute, Ctype),                                                               \
                           count,                                                                                      \
                           sizeof(N) == 8,                                                                             \
                           known};                                                                                     \
        touch_groups(call, &g);                                                                                        \
    }

TYPED(cublasSgemmGroupedBatched, int, float, CUDA_R_32F)
TYPED(cublasSgemmGroupedBatched_64, int64_t, float, CUDA_R_32F)
TYPED(cublasDgemmGroupedBatched, int, double, CUDA_R_64F)
TYPED(cublasDgemmGroupedBatched_64, int64_t, double, CUDA_R_64F)
UNTYPED(cublasGemmGroupedBatchedEx, int)
UNTYPED(cublasGemmGroupedBatchedEx_64, int64_t)
