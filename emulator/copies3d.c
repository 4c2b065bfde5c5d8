/* The calls that copy what structures describe, and batches, also of what was compressed. */
#include "array.h"
#include "capture.h"
#include "copy.h"

#include <stdlib.h>

static CUresult issue_2d(CUstream s, const CUDA_MEMCPY2D *p, bool wait) {
    INVALID_IF(!p);
    struct copy y = copy_of_2d(p);
    return copy_issue(s, &y, wait);
}

static CUresult issue_3d(CUstream s, const CUDA_MEMCPY3D *p, bool wait) {
    INVALID_IF(!p || p->srcLOD || p->dstLOD);
    struct copy y = copy_of_3d(p);
    return copy_issue(s, &y, wait);
}

CALL_ON(cuMemcpy2D_v2, const CUDA_MEMCPY2D *p) {
    return issue_2d(s, p, true);
}
SAME(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);

CALL_ON(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D *p, CUstream stream) {
    return issue_2d(s, p, false);
}

CALL_ON(cuMemcpy3D_v2, const CUDA_MEMCPY3D *p) {
    return issue_3d(s, p, true);
}

CALL_ON(cuMemcpy3DAsync_v2, const CUDA_MEMCPY3D *p, CUstream stream) {
    return issue_3d(s, p, false);
}

/* The same fields in the same order, with contexts in the reserved places. */
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER), "peer copies are read as plain ones");

CALL_ON(cuMemcpy3DPeer, const CUDA_MEMCPY3D_PEER *p) {
    return issue_3d(s, (const CUDA_MEMCPY3D *)p, false);
}

CALL_ON(cuMemcpy3DPeerAsync, const CUDA_MEMCPY3D_PEER *p, CUstream stream) {
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
    for (size_t i = 0; i < n; i++)
        TRY(copy_issue(s, &copies[i], false));
    return CUDA_SUCCESS;
}

CALL_ON(cuMemcpyBatchAsync, CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t n, CUmemcpyAttributes *attrs,
        size_t *attr_starts, size_t attr_count, size_t *failed, CUstream stream) {
    INVALID_IF(!to || !from || !bytes || n == 0 || !attrs || !attr_starts || attr_count == 0 || attr_count > n);
    struct copy *copies = calloc(n, sizeof *copies);
    if (!copies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++)
        copies[i] = copy_line(CU_MEMORYTYPE_UNIFIED, to[i], CU_MEMORYTYPE_UNIFIED, from[i], bytes[i]);
    CUresult result = issue_all(s, copies, n, failed);
    free(copies);
    return result;
}

CALL_ON(cuMemcpyBatchAsync_v2, CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t n, CUmemcpyAttributes *attrs,
        size_t *attr_starts, size_t attr_count, CUstream stream) {
    return body_cuMemcpyBatchAsync(c, s, to, from, bytes, n, attrs, attr_starts, attr_count, NULL, stream);
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

CALL_ON(cuMemcpy3DBatchAsync, size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
        CUstream stream) {
    INVALID_IF(!ops || n == 0 || flags);
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

CALL_ON(cuMemcpy3DBatchAsync_v2, size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream) {
    return body_cuMemcpy3DBatchAsync(c, s, n, ops, NULL, flags, stream);
}

CALL_ON(cuMemcpy3DWithAttributesAsync, CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream) {
    return body_cuMemcpy3DBatchAsync(c, s, 1, op, NULL, flags, stream);
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

CALL_ON(cuMemBatchDecompressAsync, CUmemDecompressParams *list, size_t n, unsigned flags, size_t *failed,
        CUstream stream) {
    CUresult result = list && n && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
        result = decompress(s, &list[i]);
        if (result != CUDA_SUCCESS && failed)
            *failed = i;
    }
    return result;
}
