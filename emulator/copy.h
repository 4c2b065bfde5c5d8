/* Copies: checked when they are issued, executed in their stream. */
#ifndef EMU_COPY_H
#define EMU_COPY_H

#include "stream.h"

/* A copy of bytes from one address to another. */
struct copy copy_line(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, uint64_t bytes);
/* The side that a 3-D copy's structure describes. */
struct copy copy_of_2d(const CUDA_MEMCPY2D *p);
struct copy copy_of_3d(const CUDA_MEMCPY3D *p);
CUDA_MEMCPY3D copy_to_3d(const struct copy *y);
/* CUDA_SUCCESS when every side exists and is large enough. */
CUresult copy_check(const struct copy *y);
/* Of a node: also what is mapped. */
CUresult copy_check_node(const struct copy *y);
/* Checks and enters it. wait: return when it is done. Pageable host memory is staged first, or waited for. */
CUresult copy_issue(CUstream s, const struct copy *y, bool wait);

#endif
