/* Copies that a structure or a list describes. A host array, an array handle and a zero extent touch nothing. */
#include "interpose/wrappers/copy.h"

#include "driver/session.h"
#include "interpose/record/wrap.h"
#include "interpose/wrappers/array.h"

/* One side of a copy: a box inside a pitched volume. Sizes in bytes, rows and layers. */
struct box {
    CUmemorytype type;
    CUdeviceptr device; /* or of the host: where its address is asked for the driver takes the device's, too */
    size_t x, y, z, pitch, height;
};

/* A copy between two boxes. */
struct transfer {
    struct box src, dst;
    size_t width, rows, layers;
};

/* Of a box: where it begins in its memory, its pitches, and how far it reaches from there. */
struct layout {
    size_t offset, pitch, layer, bytes;
};

/* A pitch or height of 0 says: packed. */
static struct layout layout(const struct box *b, const struct transfer *t) {
    size_t pitch = b->pitch ? b->pitch : t->width, layer = pitch * (b->height ? b->height : t->rows);
    return (struct layout){b->z * layer + b->y * pitch + b->x, pitch, layer,
                           (t->layers - 1) * layer + (t->rows - 1) * pitch + t->width};
}

static bool is_empty(const struct transfer *t) {
    return t->width == 0 || t->rows == 0 || t->layers == 0;
}

static bool is_on_device(const struct box *b) {
    return b->type == CU_MEMORYTYPE_DEVICE || b->type == CU_MEMORYTYPE_UNIFIED;
}

static void touch_rows(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode, bool holes) {
    if (!holes)
        wrap_touch(op, start, bytes, mode);
    else /* what lies between the rows stays */
        wrap_touch_around(op, start, bytes, mode == TOUCH_WRITE ? TOUCH_UPDATE : mode);
}

static void touch_box(struct op *op, const struct box *b, const struct transfer *t, enum touch_mode mode) {
    if (is_empty(t) || b->type == CU_MEMORYTYPE_ARRAY)
        return;
    struct layout l = layout(b, t);
    bool holes = (t->rows > 1 && t->width < l.pitch) || (t->layers > 1 && t->rows * l.pitch < l.layer);
    touch_rows(op, b->device + l.offset, l.bytes, mode, holes);
}

static void touch_boxes(struct op *op, const struct transfer *t) {
    touch_box(op, &t->src, t, TOUCH_READ);
    touch_box(op, &t->dst, t, TOUCH_WRITE);
}

/* Of host memory. */
struct piece {
    const void *start;
    size_t bytes;
};

/* What a copy brings to the device, with what lies between rows; 0 bytes: nothing. */
static struct piece brought(const struct transfer *t) {
    bool addressed = is_on_device(&t->src);
    if (is_empty(t) || (t->src.type != CU_MEMORYTYPE_HOST && !addressed) || !is_on_device(&t->dst) ||
        (addressed && !wrap_host_writes(t->src.device)))
        return (struct piece){0};
    struct layout l = layout(&t->src, t);
    return (struct piece){(const char *)(uintptr_t)t->src.device + l.offset, l.bytes};
}

static void touch_transfer(struct op *op, struct transfer t) {
    touch_boxes(op, &t);
    struct piece p = brought(&t);
    if (p.bytes)
        wrap_from_host(op, p.start, p.bytes);
}

#define ADDRESS(c, side)                                                                                               \
    ((c)->side##MemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)(c)->side##Host : (c)->side##Device)

static void touch_2d(struct op *op, const CUDA_MEMCPY2D *c) {
    touch_transfer(op,
                   (struct transfer){{c->srcMemoryType, ADDRESS(c, src), c->srcXInBytes, c->srcY, 0, c->srcPitch, 0},
                                     {c->dstMemoryType, ADDRESS(c, dst), c->dstXInBytes, c->dstY, 0, c->dstPitch, 0},
                                     c->WidthInBytes,
                                     c->Height,
                                     1});
}

#define BOX_3D(c, side)                                                                                                \
    {(c)->side##MemoryType, ADDRESS(c, side), (c)->side##XInBytes, (c)->side##Y,                                       \
     (c)->side##Z,          (c)->side##Pitch, (c)->side##Height}
#define TRANSFER_3D(c) ((struct transfer){BOX_3D(c, src), BOX_3D(c, dst), (c)->WidthInBytes, (c)->Height, (c)->Depth})

void copy_touch_3d(struct op *op, const CUDA_MEMCPY3D *c) {
    touch_transfer(op, TRANSFER_3D(c));
}

static void touch_3d_peer(struct op *op, const CUDA_MEMCPY3D_PEER *c) {
    touch_transfer(op, TRANSFER_3D(c));
}

void copy_touch_memset(struct op *op, addr_t dst, size_t pitch, size_t row_bytes, size_t rows) {
    if (row_bytes && rows)
        touch_rows(op, dst, (rows - 1) * pitch + row_bytes, TOUCH_WRITE, rows > 1 && row_bytes < pitch);
}

/* Every copy of a structure: open, touch, admit, real call, close. */
#define STRUCT_COPY(symbol, type, touch, stream_parameter, stream, call)                                               \
    CUresult custom_##symbol(int variant, const type *pCopy stream_parameter) {                                        \
        struct op op;                                                                                                  \
        if (!pCopy || !wrap_open(&op, API_##symbol, OP_COPY, stream_key(variant, stream)))                             \
            return REAL(symbol, variant) call;                                                                         \
        touch(&op, pCopy);                                                                                             \
        wrap_admit(&op);                                                                                               \
        CUresult status = RUN(&op, REAL(symbol, variant) call);                                                        \
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

/* Returns the index of the entry for which the operation is refused. The same of all touch_…list. */
static size_t touch_list(struct op *op, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        wrap_touch(op, srcs[i], sizes[i], TOUCH_READ);
        wrap_touch(op, dsts[i], sizes[i], TOUCH_WRITE);
        if (wrap_refused(op))
            return i;
    }
    return count;
}

static void point_list(struct op *op, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
                       size_t count) {
    for (size_t i = 0; i < count; i++)
        wrap_pointers(op, dsts[i], (const void *)(uintptr_t)srcs[i], sizes[i]);
}

/* As the driver: only an entry that is wrong itself is blamed. */
static void blame(const struct op *op, size_t entry, size_t *failed) {
    if (failed && op->status == CUDA_ERROR_INVALID_VALUE)
        *failed = entry;
}

/* The same of lists. */
#define LIST_COPY(symbol, list, touch, point, failed, parameters, arguments)                                           \
    CUresult custom_##symbol parameters {                                                                              \
        struct op op;                                                                                                  \
        if (!(list) || !wrap_open(&op, API_##symbol, OP_COPY, stream_key(variant, hStream)))                           \
            return REAL(symbol, variant) arguments;                                                                    \
        blame(&op, touch, failed);                                                                                     \
        wrap_admit(&op);                                                                                               \
        CUresult status = RUN(&op, REAL(symbol, variant) arguments);                                                   \
        if (status == CUDA_SUCCESS)                                                                                    \
            point;                                                                                                     \
        wrap_close(&op, status);                                                                                       \
        return status;                                                                                                 \
    }
#define LINES(symbol, failed, parameters, arguments)                                                                   \
    LIST_COPY(symbol, dsts != NULL && srcs != NULL && sizes != NULL, touch_list(&op, dsts, srcs, sizes, count),        \
              point_list(&op, dsts, srcs, sizes, count), failed, parameters, arguments)
#define BOXES(symbol, list, count, failed, parameters, arguments)                                                      \
    LIST_COPY(symbol, list, touch_3d_list(&op, list, count), point_3d_list(&op, list, count), failed, parameters,      \
              arguments)

LINES(cuMemcpyBatchAsync, failIdx,
      (int variant, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
       size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream),
      (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream))
LINES(cuMemcpyBatchAsync_v2, NULL,
      (int variant, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
       size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
      (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream))

static struct box box_of(const CUmemcpy3DOperand *o, size_t element) {
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return (struct box){.type = CU_MEMORYTYPE_ARRAY};
    return (struct box){.type = CU_MEMORYTYPE_UNIFIED,
                        .device = o->op.ptr.ptr,
                        .pitch = o->op.ptr.rowLength * element,
                        .height = o->op.ptr.layerHeight};
}

/* What lists count in: elements of the array that takes part, else bytes. 0: it does not tell. */
static size_t element_of(const CUDA_MEMCPY3D_BATCH_OP *c) {
    if (c->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return array_element(c->src.op.array.array);
    return c->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? array_element(c->dst.op.array.array) : 1;
}

static struct transfer transfer_of(const CUDA_MEMCPY3D_BATCH_OP *c, size_t element) {
    return (struct transfer){.src = box_of(&c->src, element),
                             .dst = box_of(&c->dst, element),
                             .width = c->extent.width * element,
                             .rows = c->extent.height,
                             .layers = c->extent.depth};
}

static void touch_all_around(struct op *op, const CUmemcpy3DOperand *o, enum touch_mode mode) {
    struct allocation a;
    if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER && ledger_find(session.ledger, o->op.ptr.ptr, &a))
        wrap_touch_around(op, a.start, a.bytes, mode);
}

static size_t touch_3d_list(struct op *op, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count) {
    for (const CUDA_MEMCPY3D_BATCH_OP *c = list; c < list + count; c++) {
        size_t element = element_of(c);
        struct transfer t = transfer_of(c, element);
        touch_boxes(op, &t);
        if (!element) {
            touch_all_around(op, &c->src, TOUCH_READ);
            touch_all_around(op, &c->dst, TOUCH_UPDATE);
        }
        if (wrap_refused(op))
            return (size_t)(c - list);
    }
    return count;
}

static void point_3d_list(struct op *op, const CUDA_MEMCPY3D_BATCH_OP *list, size_t count) {
    for (const CUDA_MEMCPY3D_BATCH_OP *c = list; c < list + count; c++) {
        struct transfer t = transfer_of(c, 1); /* to an array nothing is brought that a kernel could follow */
        struct piece p = brought(&t);
        if (p.bytes && op->flags & OP_CAPTURED)
            wrap_from_host(op, p.start, p.bytes);
        if (p.bytes)
            wrap_look(p.start, p.bytes);
    }
}

BOXES(cuMemcpy3DBatchAsync, opList, numOps, failIdx,
      (int variant, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
       CUstream hStream),
      (numOps, opList, failIdx, flags, hStream))
BOXES(cuMemcpy3DBatchAsync_v2, opList, numOps, NULL,
      (int variant, size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream),
      (numOps, opList, flags, hStream))
BOXES(cuMemcpy3DWithAttributesAsync, opDesc, 1, NULL,
      (int variant, CUDA_MEMCPY3D_BATCH_OP *opDesc, unsigned long long flags, CUstream hStream),
      (opDesc, flags, hStream))

static size_t touch_decompressed(struct op *op, const CUmemDecompressParams *list, size_t count) {
    for (const CUmemDecompressParams *p = list; p < list + count; p++) {
        wrap_touch(op, (addr_t)(uintptr_t)p->src, p->srcNumBytes, TOUCH_READ);
        wrap_touch(op, (addr_t)(uintptr_t)p->dst, p->dstNumBytes, TOUCH_UPDATE); /* less, perhaps */
        wrap_touch(op, (addr_t)(uintptr_t)p->dstActBytes, sizeof *p->dstActBytes, TOUCH_WRITE);
        if (wrap_refused(op))
            return (size_t)(p - list);
    }
    return count;
}

/* Addresses among what is decompressed are not looked for. */
LIST_COPY(cuMemBatchDecompressAsync, paramsArray, touch_decompressed(&op, paramsArray, count), (void)0, errorIndex,
          (int variant, CUmemDecompressParams *paramsArray, size_t count, unsigned int flags, size_t *errorIndex,
           CUstream hStream),
          (paramsArray, count, flags, errorIndex, hStream))
