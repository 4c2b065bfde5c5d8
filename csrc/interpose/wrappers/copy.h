/* The extents of copies that a structure describes. */
#ifndef ULMS_COPY_H
#define ULMS_COPY_H

#include "driver.h"
#include "launch/op.h"

void copy_touch_3d(struct op *op, const CUDA_MEMCPY3D *c);
void copy_touch_memset(struct op *op, addr_t dst, size_t pitch, size_t row_bytes, size_t rows);

#endif
