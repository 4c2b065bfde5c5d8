/* cublasLtMatmul and cublasLtMatrixTransform: which of the memory that descriptors name is touched, and how. */
#include "base/hot.h"
#include "driver/real.h"
#include "library/lt_scale.h"

/* One call of cublasLtMatmul. */
struct matmul {
    struct call *call;
    pfn_cublasLtMatmulDescGetAttribute ask;
    cublasLtMatmulDesc_t desc;
    struct lt_layout a, b, d;
    cudaDataType_t scale; /* of alpha and beta */
};

/* The attribute, or `fallback` where the library does not know it. */
static HOT_CALL SELDOM int32_t number(const struct matmul *m, cublasLtMatmulDescAttributes_t attribute,
                                      int32_t fallback) {
    int32_t value = fallback;
    size_t written = 0;
    bool known = m->ask(m->desc, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
    return known ? value : fallback;
}

static HOT_CALL SELDOM int64_t wide(const struct matmul *m, cublasLtMatmulDescAttributes_t attribute) {
    int64_t value = 0;
    size_t written = 0;
    bool known = m->ask(m->desc, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
    return known ? value : 0;
}

static addr_t place(const struct matmul *m, cublasLtMatmulDescAttributes_t attribute) {
    return (addr_t)wide(m, attribute);
}

/* A type that is not set: `usual`. */
static unsigned type_bits(const struct matmul *m, cublasLtMatmulDescAttributes_t attribute, cudaDataType_t usual) {
    int32_t type = number(m, attribute, -1);
    return library_bits(type < 0 ? usual : (cudaDataType_t)type);
}

static bool is_narrow(cudaDataType_t type) {
    return type >= CUDA_R_8F_E4M3;
}

/* That of the output, but for 8-bit integers, and for products of narrow numbers where that has other than 16 bits. */
static cudaDataType_t usual_bias(const struct matmul *m) {
    if (m->d.type == CUDA_R_8I)
        return m->scale;
    bool wide = library_bits(m->d.type) > 16;
    return is_narrow(m->d.type) || (is_narrow(m->a.type) && wide) ? CUDA_R_16BF : m->d.type;
}

static struct span batched(const struct matmul *m, struct span one, cublasLtMatmulDescAttributes_t stride) {
    return m->d.count > 1 ? library_batch(one, m->d.count, wide(m, stride)) : one;
}

static HOT_CALL SELDOM void touch_bias(const struct matmul *m, uint32_t epilogue) {
    bool gradient = epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB | 16);
    if (!gradient && !(epilogue & CUBLASLT_EPILOGUE_BIAS))
        return;
    struct span one = library_count(epilogue & CUBLASLT_EPILOGUE_BGRADB ? m->d.cols : m->d.rows);
    call_touch(m->call, place(m, CUBLASLT_MATMUL_DESC_BIAS_POINTER),
               batched(m, one, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE),
               type_bits(m, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, usual_bias(m)), gradient ? TOUCH_WRITE : TOUCH_READ);
}

/* What the forward pass keeps for the backward pass: one bit an element of ReLU, GELU's input. */
static SELDOM void touch_auxiliary(const struct matmul *m, uint32_t epilogue) {
    bool kept = epilogue & (CUBLASLT_EPILOGUE_RELU_AUX & CUBLASLT_EPILOGUE_GELU_AUX);
    bool backward = epilogue & (8 | 64), mask = epilogue & (CUBLASLT_EPILOGUE_RELU | 8);
    if (!kept)
        return;
    struct span one = cublas_matrix(wide(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), m->d.rows, m->d.cols);
    call_touch(m->call, place(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER),
               batched(m, one, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE),
               mask ? 1 : type_bits(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, m->d.type),
               backward ? TOUCH_READ : TOUCH_WRITE);
}

/* The size of what is told is a bound: how factors lie is the library's affair. */
static void touch_scale(const struct matmul *m, cublasLtMatmulDescAttributes_t pointer,
                        cublasLtMatmulDescAttributes_t mode, const struct lt_layout *l, int64_t outer,
                        enum touch_mode how) {
    addr_t start = place(m, pointer);
    if (start)
        call_within(m->call, start, lt_scale((cublasLtMatmulMatrixScale_t)number(m, mode, 0), l, outer), 8, how);
}

/* A maximum is kept: other kernels may have found a larger one. */
static void touch_maximum(const struct matmul *m, cublasLtMatmulDescAttributes_t pointer) {
    call_touch(m->call, place(m, pointer), library_count(1), 32, TOUCH_UPDATE);
}

static SELDOM void touch_scales(const struct matmul *m) {
    const struct lt_layout *d = &m->d;
    touch_scale(m, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &m->a, d->rows, TOUCH_READ);
    touch_scale(m, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &m->b, d->cols, TOUCH_READ);
    touch_scale(m, CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_C_SCALE_MODE, d, d->rows, TOUCH_READ);
    touch_scale(m, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_MODE, d, d->rows, TOUCH_READ);
    touch_scale(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, d,
                d->rows, TOUCH_READ);
    touch_scale(m, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, d, d->rows,
                TOUCH_WRITE);
    touch_maximum(m, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER);
    touch_maximum(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER);
}

static void touch_scalar(const struct matmul *m, const void *scalar, struct span span) {
    call_touch(m->call, (addr_t)(uintptr_t)scalar, span, library_bits(m->scale), TOUCH_READ);
}

/* True when C is read. */
static bool touch_scalars(const struct matmul *m, const void *alpha, const void *beta) {
    struct span one = library_count(1), column = library_count(m->d.rows);
    switch (number(m, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST)) {
    case CUBLASLT_POINTER_MODE_DEVICE:
        touch_scalar(m, alpha, batched(m, one, CUBLASLT_MATMUL_DESC_ALPHA_BATCH_STRIDE));
        touch_scalar(m, beta, batched(m, one, CUBLASLT_MATMUL_DESC_BETA_BATCH_STRIDE));
        return true;
    case CUBLASLT_POINTER_MODE_DEVICE_VECTOR:
        touch_scalar(m, alpha, column);
        touch_scalar(m, beta, column);
        return true;
    case CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO:
        touch_scalar(m, alpha, column);
        return false;
    case CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST:
        touch_scalar(m, alpha, batched(m, column, CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE));
        break;
    }
    return !library_is_zero(beta, m->scale);
}

HOT_CALL void touches_cublasLtMatmul(struct call *call, int variant, cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void *alpha, const void *A, cublasLtMatrixLayout_t a, const void *B,
                                     cublasLtMatrixLayout_t b, const void *beta, const void *C,
                                     cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                     cudaStream_t stream) {
    struct matmul m = {.call = call, .ask = REAL(cublasLtMatmulDescGetAttribute, variant), .desc = desc};
    struct lt_layout of_c;
    (void)handle, (void)algo, (void)workspace, (void)workspace_bytes, (void)stream; /* a row of its own */
    if (!desc || !lt_layout_read(variant, d, NULL, &m.d) || !lt_layout_read(variant, a, &m.d, &m.a) ||
        !lt_layout_read(variant, b, &m.d, &m.b)) {
        call->hides = true; /* its workspace is told all the same */
        return;
    }
    m.scale = (cudaDataType_t)number(&m, CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F);
    uint32_t epilogue = (uint32_t)number(&m, CUBLASLT_MATMUL_DESC_EPILOGUE, 0);
    lt_layout_touch(call, variant, a, &m.a, A, TOUCH_READ);
    lt_layout_touch(call, variant, b, &m.b, B, TOUCH_READ);
    if (touch_scalars(&m, alpha, beta) && C) {
        if (c == d)
            lt_layout_touch(call, variant, d, &m.d, C, TOUCH_READ);
        else if (lt_layout_read(variant, c, &m.d, &of_c))
            lt_layout_touch(call, variant, c, &of_c, C, TOUCH_READ);
    }
    lt_layout_touch(call, variant, d, &m.d, D, TOUCH_WRITE);
    touch_bias(&m, epilogue);
    touch_auxiliary(&m, epilogue);
    if (is_narrow(m.a.type))
        touch_scales(&m);
}

static int32_t transform_number(int variant, cublasLtMatrixTransformDesc_t desc,
                                cublasLtMatrixTransformDescAttributes_t attribute, int32_t fallback) {
    int32_t value = fallback;
    size_t written = 0;
    cublasStatus_t status =
        REAL(cublasLtMatrixTransformDescGetAttribute, variant)(desc, attribute, &value, sizeof value, &written);
    return status == CUBLAS_STATUS_SUCCESS ? value : fallback;
}

void touches_cublasLtMatrixTransform(struct call *call, int variant, cublasLtHandle_t handle,
                                     cublasLtMatrixTransformDesc_t desc, const void *alpha, const void *A,
                                     cublasLtMatrixLayout_t a, const void *beta, const void *B,
                                     cublasLtMatrixLayout_t b, void *C, cublasLtMatrixLayout_t c, cudaStream_t stream) {
    struct lt_layout l;
    (void)handle, (void)stream;
    if (!desc)
        return;
    int32_t scale = transform_number(variant, desc, CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, CUDA_R_32F);
    bool device = transform_number(variant, desc, CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, 0) != 0;
    unsigned bits = library_bits((cudaDataType_t)scale);
    if (device) {
        call_touch(call, (addr_t)(uintptr_t)alpha, library_count(1), bits, TOUCH_READ);
        call_touch(call, (addr_t)(uintptr_t)beta, library_count(1), bits, TOUCH_READ);
    }
    if (lt_layout_read(variant, a, NULL, &l))
        lt_layout_touch(call, variant, a, &l, A, TOUCH_READ);
    if (B && (device || !library_is_zero(beta, (cudaDataType_t)scale)) && lt_layout_read(variant, b, NULL, &l))
        lt_layout_touch(call, variant, b, &l, B, TOUCH_READ);
    if (lt_layout_read(variant, c, NULL, &l))
        lt_layout_touch(call, variant, c, &l, C, TOUCH_WRITE);
}
