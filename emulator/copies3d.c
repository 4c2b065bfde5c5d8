/* The calls that copy what structures describe, and batches, also of what was compressed. */
#include "array.h"
#include "capture.h"
#include "copy.h"

#include <stdlib.h>

static CUresult issue_2d(CUstream s, const CUDA_MEMCPY2D *p, bool wait) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    struct copy y = copy_of_2d(p);
    return copy_issue(s, &y, wait);
}

static CUresult issue_3d(CUstream s, const CUDA_MEMCPY3D *p, bool wait) {
    if (!p || p->srcLOD || p->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    struct copy y = copy_of_3d(p);
    return copy_issue(s, &y, wait);
}

STREAMED(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *p), (p)) {
    BEGIN_ON(NULL);
    return issue_2d(s, p, true);
}

STREAMED(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *p), (p)) {
    BEGIN_ON(NULL);
    return issue_2d(s, p, true);
}

STREAMED(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *p, CUstream stream), (p, stream)) {
    BEGIN_ON(stream);
    return issue_2d(s, p, false);
}

STREAMED(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *p), (p)) {
    BEGIN_ON(NULL);
    return issue_3d(s, p, true);
}

STREAMED(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *p, CUstream stream), (p, stream)) {
    BEGIN_ON(stream);
    return issue_3d(s, p, false);
}

/* The same fields in the same order, with contexts in the reserved places. */
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "peer copies are read as plain ones");

STREAMED(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *p), (p)) {
    BEGIN_ON(NULL);
    return issue_3d(s, (const CUDA_MEMCPY3D *)p, false);
}

STREAMED(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *p, CUstream stream), (p, stream)) {
    BEGIN_ON(stream);
    return issue_3d(s, (const CUDA_MEMCPY3D *)p, false);
}

/* --- batches --- */

/* Checks all before any is issued. *failed: the first that is wrong, SIZE_MAX when none is to blame. */
static CUresult issue_all(CUstream s, const struct copy *copies, size_t n, size_t *failed) {
    if (failed)
        *failed = SIZE_MAX;
    if (s == s->context->legacy) /* batches take no default stream */
        return CUDA_ERROR_INVALID_VALUE;
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    for (size_t i = 0; i < n; i++) {
        CUresult result = copy_check(&copies[i]);
        if (result != CUDA_SUCCESS) {
            if (failed)
                *failed = i;
            return result;
        }
    }
    for (size_t i = 0; i < n; i++) {
        CUresult result = copy_issue(s, &copies[i], false);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult batch(CUstream s, CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t n,
                      CUmemcpyAttributes *attrs, size_t *attr_starts, size_t attr_count, size_t *failed) {
    if (!to || !from || !bytes || n == 0 || !attrs || !attr_starts || attr_count == 0 || attr_count > n)
        return CUDA_ERROR_INVALID_VALUE;
    struct copy *copies = calloc(n, sizeof *copies);
    if (!copies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        copies[i] = copy_line(CU_MEMORYTYPE_UNIFIED, to[i], CU_MEMORYTYPE_UNIFIED, from[i], bytes[i]);
    CUresult result = issue_all(s, copies, n, failed);
    free(copies);
    return result;
}

STREAMED(cuMemcpyBatchAsync, _ptsz,
         (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t n, CUmemcpyAttributes *attrs, size_t *attr_starts,
          size_t attr_count, size_t *failed, CUstream stream),
         (to, from, bytes, n, attrs, attr_starts, attr_count, failed, stream)) {
    BEGIN_ON(stream);
    return batch(s, to, from, bytes, n, attrs, attr_starts, attr_count, failed);
}

STREAMED(cuMemcpyBatchAsync_v2, _ptsz,
         (CUdeviceptr * to, CUdeviceptr *from, size_t *bytes, size_t n, CUmemcpyAttributes *attrs, size_t *attr_starts,
          size_t attr_count, CUstream stream),
         (to, from, bytes, n, attrs, attr_starts, attr_count, stream)) {
    BEGIN_ON(stream);
    return batch(s, to, from, bytes, n, attrs, attr_starts, attr_count, NULL);
}

static struct side operand(const CUmemcpy3DOperand *o) {
    if (o->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return (struct side){.type = CU_MEMORYTYPE_UNIFIED,
                             .address = o->op.ptr.ptr,
                             .pitch = o->op.ptr.rowLength,
                             .rows = o->op.ptr.layerHeight};
    uint64_t element = o->op.array.array ? o->op.array.array->element : 1;
    return (struct side){.type = CU_MEMORYTYPE_ARRAY,
                         .array = o->op.array.array,
                         .x = o->op.array.offset.x * element,
                         .y = o->op.array.offset.y,
                         .z = o->op.array.offset.z};
}

static CUresult batch_3d(CUstream s, size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, uint64_t flags) {
    if (!ops || n == 0 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct copy *copies = calloc(n, sizeof *copies);
    if (!copies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const CUDA_MEMCPY3D_BATCH_OP *o = &ops[i];
        copies[i] = (struct copy){.from = operand(&o->src), .to = operand(&o->dst)};
        /* The extent is in elements where an array takes part, in bytes otherwise. */
        uint64_t element = copies[i].from.array ? copies[i].from.array->element
                           : copies[i].to.array ? copies[i].to.array->element
                                                : 1;
        copies[i].width = o->extent.width * element;
        copies[i].height = o->extent.height;
        copies[i].depth = o->extent.depth;
        if (!copies[i].from.array)
            copies[i].from.pitch *= element;
        if (!copies[i].to.array)
            copies[i].to.pitch *= element;
    }
    CUresult result = issue_all(s, copies, n, failed);
    free(copies);
    return result;
}

STREAMED(cuMemcpy3DBatchAsync, _ptsz,
         (size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags, CUstream stream),
         (n, ops, failed, flags, stream)) {
    BEGIN_ON(stream);
    return batch_3d(s, n, ops, failed, flags);
}

STREAMED(cuMemcpy3DBatchAsync_v2, _ptsz,
         (size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream), (n, ops, flags, stream)) {
    BEGIN_ON(stream);
    return batch_3d(s, n, ops, NULL, flags);
}

STREAMED(cuMemcpy3DWithAttributesAsync, _ptsz, (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream stream),
         (op, flags, stream)) {
    BEGIN_ON(stream);
    return batch_3d(s, 1, op, NULL, flags);
}

/* The engine here knows no algorithm: what it is given comes out as it is. */
static CUresult decompress(CUstream s, const CUmemDecompressParams *p) {
    uint64_t bytes = p->srcNumBytes < p->dstNumBytes ? p->srcNumBytes : p->dstNumBytes;
    struct copy c =
        copy_line(CU_MEMORYTYPE_UNIFIED, (uintptr_t)p->dst, CU_MEMORYTYPE_UNIFIED, (uintptr_t)p->src, bytes);
    struct work count = {.kind = WORK_MEMSET,
                         .memset = {(uintptr_t)p->dstActBytes, 0, 1, 1, (uint32_t)bytes, sizeof *p->dstActBytes}};
    CUresult result = memset_check(&count.memset);
    result = result == CUDA_SUCCESS ? copy_issue(s, &c, false) : result;
    return result == CUDA_SUCCESS ? stream_issue(s, &count) : result;
}

STREAMED(cuMemBatchDecompressAsync, _ptsz,
         (CUmemDecompressParams * list, size_t n, unsigned flags, size_t *failed, CUstream stream),
         (list, n, flags, failed, stream)) {
    BEGIN_ON(stream);
    CUresult result = list && n && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
        result = decompress(s, &list[i]);
        if (result != CUDA_SUCCESS && failed)
            *failed = i;
    }
    return result;
}
