/* What a matrix layout of cublasLt says, asked of the library. */
#ifndef ULMS_LT_LAYOUT_H
#define ULMS_LT_LAYOUT_H

#include "library.h"
#include "library/call.h"

/* Elements of one matrix, and how many there are. */
struct lt_layout {
    cudaDataType_t type;
    cublasLtOrder_t order;
    cublasLtBatchMode_t mode;
    int64_t rows, cols, ld, count, stride;
    int64_t plane; /* bytes from the real to the imaginary numbers, each a matrix of its own; 0: they alternate */
};

/* False when the library answers nothing, as for NULL. Number and mode are those of all layouts of a call: they are
 * taken from `same`, another layout of it, where that is not NULL. */
bool lt_layout_read(int variant, cublasLtMatrixLayout_t desc, const struct lt_layout *same, struct lt_layout *out);
/* The call touches all matrices of the layout. */
void lt_layout_touch(struct call *call, int variant, cublasLtMatrixLayout_t desc, const struct lt_layout *l,
                     const void *matrix, enum touch_mode mode);

#endif
