#include "library/lt_layout.h"

#include "base/hot.h"
#include "driver/real.h"

typedef pfn_cublasLtMatrixLayoutGetAttribute ask_function;

/* False where the library does not know the attribute; *value is kept then. */
static HOT_CALL SELDOM bool layout_ask(ask_function f, cublasLtMatrixLayout_t desc,
                                       cublasLtMatrixLayoutAttribute_t attribute, void *value, size_t bytes) {
    size_t written = 0;
    return f(desc, attribute, value, bytes, &written) == CUBLAS_STATUS_SUCCESS && written == bytes;
}

static bool is_complex(cudaDataType_t type) {
    static const uint64_t complex = 1ull << CUDA_C_16F | 1ull << CUDA_C_16BF | 1ull << CUDA_C_32F | 1ull << CUDA_C_64F |
                                    1ull << CUDA_C_8I | 1ull << CUDA_C_8U | 1ull << CUDA_C_32I | 1ull << CUDA_C_32U;
    return complex >> type & 1;
}

HOT_CALL bool lt_layout_read(int variant, cublasLtMatrixLayout_t desc, const struct lt_layout *same,
                             struct lt_layout *out) {
    ask_function f = REAL(cublasLtMatrixLayoutGetAttribute, variant);
    uint32_t type, mode = same ? same->mode : CUBLASLT_BATCH_MODE_STRIDED;
    int32_t order = CUBLASLT_ORDER_COL, count = same ? (int32_t)same->count : 1;
    *out = (struct lt_layout){0};
    if (!desc || !layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type) ||
        !layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_ROWS, &out->rows, sizeof out->rows) ||
        !layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_COLS, &out->cols, sizeof out->cols) ||
        !layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_LD, &out->ld, sizeof out->ld))
        return false;
    layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
    if (!same) {
        layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
        layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode, sizeof mode);
    }
    if (count > 1)
        layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &out->stride, sizeof out->stride);
    if (is_complex((cudaDataType_t)type))
        layout_ask(f, desc, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, &out->plane, sizeof out->plane);
    out->type = (cudaDataType_t)type;
    out->order = (cublasLtOrder_t)order;
    out->mode = (cublasLtBatchMode_t)mode;
    out->count = count;
    return true;
}

static int64_t up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* Groups of 32 columns, one every ld elements, whose rows fill whole tiles. */
static struct span tiled(const struct lt_layout *l, int64_t tile_rows) {
    int64_t group = up(l->rows, tile_rows) * 32, groups = up(l->cols, 32) / 32;
    return library_batch(library_count(l->cols > 0 ? group : 0), groups, l->ld);
}

static SELDOM struct span one_tiled(const struct lt_layout *l) {
    switch (l->order) {
    case CUBLASLT_ORDER_COL32:
        return tiled(l, 1);
    case CUBLASLT_ORDER_COL4_4R2_8C:
        return tiled(l, 8);
    default:
        return tiled(l, 32);
    }
}

static struct span one_matrix(const struct lt_layout *l) {
    bool by_rows = l->order == CUBLASLT_ORDER_ROW;
    if (l->order != CUBLASLT_ORDER_COL && !by_rows)
        return one_tiled(l);
    return cublas_matrix(l->ld, by_rows ? l->cols : l->rows, by_rows ? l->rows : l->cols);
}

/* Shapes are in device memory: of each matrix only the block is known. */
static SELDOM void touch_grouped(struct call *call, int variant, cublasLtMatrixLayout_t desc, const struct lt_layout *l,
                                 addr_t array, enum touch_mode mode) {
    static const cublasLtMatrixLayoutAttribute_t lists[] = {CUBLASLT_GROUPED_MATRIX_LAYOUT_ROWS_ARRAY,
                                                            CUBLASLT_GROUPED_MATRIX_LAYOUT_COLS_ARRAY,
                                                            CUBLASLT_GROUPED_MATRIX_LAYOUT_LD_ARRAY};
    static const cublasLtMatrixLayoutAttribute_t widths[] = {
        CUBLASLT_GROUPED_MATRIX_LAYOUT_ROWS_COLS_ARRAY_INTEGER_WIDTH,
        CUBLASLT_GROUPED_MATRIX_LAYOUT_ROWS_COLS_ARRAY_INTEGER_WIDTH,
        CUBLASLT_GROUPED_MATRIX_LAYOUT_LD_ARRAY_INTEGER_WIDTH};
    ask_function f = REAL(cublasLtMatrixLayoutGetAttribute, variant);
    call_touch(call, array, library_count(l->count), 8 * sizeof(addr_t), TOUCH_READ);
    call_pointed_blocks(call, array, l->count, mode);
    for (int i = 0; i < 3; i++) {
        addr_t list = 0;
        int32_t width = CUBLASLT_INTEGER_WIDTH_32;
        layout_ask(f, desc, lists[i], &list, sizeof list);
        layout_ask(f, desc, widths[i], &width, sizeof width);
        call_touch(call, list, library_count(l->count), width == CUBLASLT_INTEGER_WIDTH_64 ? 64 : 32, TOUCH_READ);
    }
}

HOT_CALL void lt_layout_touch(struct call *call, int variant, cublasLtMatrixLayout_t desc, const struct lt_layout *l,
                              const void *matrix, enum touch_mode mode) {
    addr_t start = (addr_t)(uintptr_t)matrix;
    unsigned bits = library_bits(l->type);
    if (l->mode == CUBLASLT_BATCH_MODE_GROUPED) {
        touch_grouped(call, variant, desc, l, start, mode);
    } else if (l->mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY) {
        call_array(call, start, l->count, one_matrix(l), bits, mode);
    } else if (l->plane) { /* strides count real numbers then */
        struct span real = library_batch(one_matrix(l), l->count, l->stride);
        call_touch(call, start, real, bits / 2, mode);
        call_touch(call, start + (addr_t)l->plane, real, bits / 2, mode);
    } else {
        call_touch(call, start, library_batch(one_matrix(l), l->count, l->stride), bits, mode);
    }
}
