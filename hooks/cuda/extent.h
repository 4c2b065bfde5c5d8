/* How many bytes a call touches, from what its arguments say: the forms of the hook tables that take arithmetic. */
#ifndef ULMS_CUDA_EXTENT_H
#define ULMS_CUDA_EXTENT_H

#include <stdint.h>

/* From the first byte of the first row to the last of the last row: padding behind the last row does not count. */
static inline uint64_t extent_rows(uint64_t pitch, uint64_t width, uint64_t height) {
    return width && height ? (height - 1) * pitch + width : 0;
}

#endif
