/* Copies that a structure or a list describes. A host array, an array handle and a zero extent touch nothing. */
#include "interpose/copy.h"

#include "interpose/session.h"

/* One side of a copy: a box inside a pitched volume. Sizes in bytes, rows and layers. */
struct box {
    CUmemorytype type;
    CUdeviceptr device;
    size_t x, y, z, pitch, height;
};

static void touch_box(struct op *op, struct box b, size_t width, size_t rows, size_t layers, enum touch_mode mode) {
    if (width == 0 || rows == 0 || layers == 0 || (b.type != CU_MEMORYTYPE_DEVICE && b.type != CU_MEMORYTYPE_UNIFIED))
        return;
    /* a pitch or height of 0 says: packed */
    size_t pitch = b.pitch ? b.pitch : width;
    size_t layer = pitch * (b.height ? b.height : rows);
    addr_t start = b.device + b.z * layer + b.y * pitch + b.x;
    bool holes = (rows > 1 && width < pitch) || (layers > 1 && rows * pitch < layer);
    if (mode == TOUCH_WRITE && holes) /* what lies between the rows stays */
        mode = TOUCH_UPDATE;
    wrap_touch(op, start, (layers - 1) * layer + (rows - 1) * pitch + width, mode);
}

/* Of host memory. */
struct piece {
    const void *start;
    size_t bytes;
};

/* What a copy between two boxes brings to the device, with what lies between rows; 0 bytes: nothing. */
static struct piece brought(struct box src, const void *host, struct box dst, size_t width, size_t rows,
                            size_t layers) {
    bool unified = src.type == CU_MEMORYTYPE_UNIFIED;
    struct allocation a;
    if (width == 0 || rows == 0 || layers == 0 || (src.type != CU_MEMORYTYPE_HOST && !unified) ||
        (dst.type != CU_MEMORYTYPE_DEVICE && dst.type != CU_MEMORYTYPE_UNIFIED) ||
        (unified && ledger_find(session.ledger, src.device, &a) && a.kind != MEMORY_HOST))
        return (struct piece){0};
    size_t pitch = src.pitch ? src.pitch : width, layer = pitch * (src.height ? src.height : rows);
    const char *start = unified ? (const char *)(uintptr_t)src.device : host;
    return (struct piece){start + src.z * layer + src.y * pitch + src.x,
                          (layers - 1) * layer + (rows - 1) * pitch + width};
}

/* Between two boxes that the caller has touched. */
static void bring_box(struct op *op, struct box src, const void *host, struct box dst, size_t width, size_t rows,
                      size_t layers) {
    struct piece p = brought(src, host, dst, width, rows, layers);
    if (p.bytes)
        wrap_from_host(op, p.start, p.bytes);
}

static void touch_2d(struct op *op, const CUDA_MEMCPY2D *c) {
    struct box src = {c->srcMemoryType, c->srcDevice, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0};
    struct box dst = {c->dstMemoryType, c->dstDevice, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0};
    touch_box(op, src, c->WidthInBytes, c->Height, 1, TOUCH_READ);
    touch_box(op, dst, c->WidthInBytes, c->Height, 1, TOUCH_WRITE);
    bring_box(op, src, c->srcHost, dst, c->WidthInBytes, c->Height, 1);
}

void copy_touch_3d(struct op *op, const CUDA_MEMCPY3D *c) {
    struct box src = {c->srcMemoryType, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight};
    struct box dst = {c->dstMemoryType, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight};
    touch_box(op, src, c->WidthInBytes, c->Height, c->Depth, TOUCH_READ);
    touch_box(op, dst, c->WidthInBytes, c->Height, c->Depth, TOUCH_WRITE);
    bring_box(op, src, c->srcHost, dst, c->WidthInBytes, c->Height, c->Depth);
}

static void touch_3d_peer(struct op *op, const CUDA_MEMCPY3D_PEER *c) {
    struct box src = {c->srcMemoryType, c->srcDevice, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight};
    struct box dst = {c->dstMemoryType, c->dstDevice, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight};
    touch_box(op, src, c->WidthInBytes, c->Height, c->Depth, TOUCH_READ);
    touch_box(op, dst, c->WidthInBytes, c->Height, c->Depth, TOUCH_WRITE);
    bring_box(op, src, c->srcHost, dst, c->WidthInBytes, c->Height, c->Depth);
}

void copy_touch_memset(struct op *op, addr_t dst, size_t pitch, size_t row_bytes, size_t rows) {
    if (row_bytes && rows)
        wrap_touch(op, dst, (rows - 1) * pitch + row_bytes, rows > 1 && row_bytes < pitch ? TOUCH_UPDATE : TOUCH_WRITE);
}

/* Every copy of a structure: open, touch, admit, real call, close. */
#define STRUCT_COPY(symbol, type, touch, stream_parameter, stream, call)                                               \
    CUresult custom_##symbol(int variant, const type *pCopy stream_parameter) {                                        \
        struct op op;                                                                                                  \
        if (!pCopy || !wrap_open(&op, API_##symbol, OP_COPY, stream_key(variant, stream)))                             \
            return REAL(symbol, variant) call;                                                                         \
        touch(&op, pCopy);                                                                                             \
        wrap_admit(&op);                                                                                               \
        CUresult status = REAL(symbol, variant) call;                                                                  \
        if (status == CUDA_SUCCESS && op.from)                                                                         \
            wrap_look(op.from, op.from_bytes);                                                                         \
        wrap_close(&op, status);                                                                                       \
        return status;                                                                                                 \
    }
#define SYNC(symbol, type, touch)  STRUCT_COPY(symbol, type, touch, , NULL, (pCopy))
#define COMMA                      ,
#define ASYNC(symbol, type, touch) STRUCT_COPY(symbol, type, touch, COMMA CUstream hStream, hStream, (pCopy, hStream))

SYNC(cuMemcpy2D_v2, CUDA_MEMCPY2D, touch_2d)
SYNC(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, touch_2d)
SYNC(cuMemcpy3D_v2, CUDA_MEMCPY3D, copy_touch_3d)
SYNC(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, touch_3d_peer)
ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, touch_2d)
ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, copy_touch_3d)
ASYNC(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, touch_3d_peer)

static void touch_list(struct op *op, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        wrap_touch(op, srcs[i], sizes[i], TOUCH_READ);
        wrap_touch(op, dsts[i], sizes[i], TOUCH_WRITE);
    }
}

static void point_list(struct op *op, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                       size_t count) {
    for (size_t i = 0; i < count; i++)
        wrap_pointers(op, dsts[i], (const void *)(uintptr_t)srcs[i], sizes[i]);
}

CUresult custom_cuMemcpyBatchAsync(int variant, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                   CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
                                   CUstream hStream) {
    pfn_cuMemcpyBatchAsync real = REAL(cuMemcpyBatchAsync, variant);
    struct op op;
    if (!dsts || !srcs || !sizes || !wrap_open(&op, API_cuMemcpyBatchAsync, OP_COPY, stream_key(variant, hStream)))
        return real(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
    touch_list(&op, dsts, srcs, sizes, count);
    wrap_admit(&op);
    CUresult status = real(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
    if (status == CUDA_SUCCESS)
        point_list(&op, dsts, srcs, sizes, count);
    wrap_close(&op, status);
    return status;
}

CUresult custom_cuMemcpyBatchAsync_v2(int variant, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream) {
    pfn_cuMemcpyBatchAsync_v2 real = REAL(cuMemcpyBatchAsync_v2, variant);
    struct op op;
    if (!dsts || !srcs || !sizes || !wrap_open(&op, API_cuMemcpyBatchAsync_v2, OP_COPY, stream_key(variant, hStream)))
        return real(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
    touch_list(&op, dsts, srcs, sizes, count);
    wrap_admit(&op);
    CUresult status = real(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
    if (status == CUDA_SUCCESS)
        point_list(&op, dsts, srcs, sizes, count);
    wrap_close(&op, status);
    return status;
}

static struct box box_of(const CUmemcpy3DOperand *o) {
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return (struct box){.type = CU_MEMORYTYPE_ARRAY};
    return (struct box){CU_MEMORYTYPE_UNIFIED, o->op.ptr.ptr, 0, 0, 0, o->op.ptr.rowLength, o->op.ptr.layerHeight};
}

static void touch_3d_list(struct op *op, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count) {
    for (const CUDA_MEMCPY3D_BATCH_OP *c = list; c < list + count; c++) {
        touch_box(op, box_of(&c->src), c->extent.width, c->extent.height, c->extent.depth, TOUCH_READ);
        touch_box(op, box_of(&c->dst), c->extent.width, c->extent.height, c->extent.depth, TOUCH_WRITE);
    }
}

static void point_3d_list(struct op *op, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count) {
    for (const CUDA_MEMCPY3D_BATCH_OP *c = list; c < list + count; c++) {
        struct piece p =
            brought(box_of(&c->src), NULL, box_of(&c->dst), c->extent.width, c->extent.height, c->extent.depth);
        if (p.bytes && op->flags & OP_CAPTURED)
            wrap_from_host(op, p.start, p.bytes);
        if (p.bytes)
            wrap_look(p.start, p.bytes);
    }
}

CUresult custom_cuMemcpy3DBatchAsync(int variant, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                                     unsigned long long flags, CUstream hStream) {
    pfn_cuMemcpy3DBatchAsync real = REAL(cuMemcpy3DBatchAsync, variant);
    struct op op;
    if (!opList || !wrap_open(&op, API_cuMemcpy3DBatchAsync, OP_COPY, stream_key(variant, hStream)))
        return real(numOps, opList, failIdx, flags, hStream);
    touch_3d_list(&op, opList, numOps);
    wrap_admit(&op);
    CUresult status = real(numOps, opList, failIdx, flags, hStream);
    if (status == CUDA_SUCCESS)
        point_3d_list(&op, opList, numOps);
    wrap_close(&op, status);
    return status;
}

CUresult custom_cuMemcpy3DBatchAsync_v2(int variant, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                        unsigned long long flags, CUstream hStream) {
    pfn_cuMemcpy3DBatchAsync_v2 real = REAL(cuMemcpy3DBatchAsync_v2, variant);
    struct op op;
    if (!opList || !wrap_open(&op, API_cuMemcpy3DBatchAsync_v2, OP_COPY, stream_key(variant, hStream)))
        return real(numOps, opList, flags, hStream);
    touch_3d_list(&op, opList, numOps);
    wrap_admit(&op);
    CUresult status = real(numOps, opList, flags, hStream);
    if (status == CUDA_SUCCESS)
        point_3d_list(&op, opList, numOps);
    wrap_close(&op, status);
    return status;
}

CUresult custom_cuMemcpy3DWithAttributesAsync(int variant, CUDA_MEMCPY3D_BATCH_OP *opDesc, unsigned long long flags,
                                              CUstream hStream) {
    pfn_cuMemcpy3DWithAttributesAsync real = REAL(cuMemcpy3DWithAttributesAsync, variant);
    struct op op;
    if (!opDesc || !wrap_open(&op, API_cuMemcpy3DWithAttributesAsync, OP_COPY, stream_key(variant, hStream)))
        return real(opDesc, flags, hStream);
    touch_3d_list(&op, opDesc, 1);
    wrap_admit(&op);
    CUresult status = real(opDesc, flags, hStream);
    if (status == CUDA_SUCCESS)
        point_3d_list(&op, opDesc, 1);
    wrap_close(&op, status);
    return status;
}
