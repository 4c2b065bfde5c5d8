#include "interpose/wrappers/stream.h"

#include "driver/capture.h"
#include "interpose/record/wrap.h"

/* What one operation of a list uses; 0 bytes: it keeps order. */
static struct touch word_of(const CUstreamBatchMemOpParams *p) {
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return (struct touch){.start = p->waitValue.address, .bytes = 4, .mode = TOUCH_READ};
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return (struct touch){.start = p->waitValue.address, .bytes = 8, .mode = TOUCH_READ};
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return (struct touch){.start = p->writeValue.address, .bytes = 4, .mode = TOUCH_WRITE};
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return (struct touch){.start = p->writeValue.address, .bytes = 8, .mode = TOUCH_WRITE};
    case CU_STREAM_MEM_OP_ATOMIC_REDUCTION: /* of 4 or 8 bytes */
        return (struct touch){.start = p->atomicReduction.address, .bytes = 8, .mode = TOUCH_UPDATE};
    default:
        return (struct touch){0};
    }
}

/* Of enum touch_mode, of all words together; 0: there is none. */
static unsigned modes(const CUstreamBatchMemOpParams *list, unsigned int count) {
    unsigned all = 0;
    for (unsigned int i = 0; list && i < count; i++)
        all |= word_of(&list[i]).mode;
    return all;
}

void stream_touch_words(struct op *op, const CUstreamBatchMemOpParams *list, unsigned int count) {
    for (unsigned int i = 0; i < count; i++) {
        struct touch t = word_of(&list[i]);
        wrap_touch(op, t.start, t.bytes, t.mode);
        if (list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            wrap_hide(list[i].writeValue.value64);
    }
}

/* Both versions mean the same, of one word and of a list. */
#define WORD(symbol)                                                                                                   \
    CUresult custom_##symbol(int variant, CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {   \
        struct op op;                                                                                                  \
        wrap_hide(value);                                                                                              \
        if (!wrap_open(&op, API_##symbol, OP_MEMSET, stream_key(variant, stream)))                                     \
            return REAL(symbol, variant)(stream, addr, value, flags);                                                  \
        wrap_touch(&op, addr, sizeof value, TOUCH_WRITE);                                                              \
        wrap_admit(&op);                                                                                               \
        CUresult status = RUN(&op, REAL(symbol, variant)(stream, addr, value, flags));                                 \
        wrap_close(&op, status);                                                                                       \
        return status;                                                                                                 \
    }

WORD(cuStreamWriteValue64)
WORD(cuStreamWriteValue64_v2)

#define BATCH(symbol)                                                                                                  \
    CUresult custom_##symbol(int variant, CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,   \
                             unsigned int flags) {                                                                     \
        struct op op;                                                                                                  \
        unsigned how = modes(paramArray, count);                                                                       \
        enum op_kind kind = how == TOUCH_READ ? OP_AFTER : OP_MEMSET;                                                  \
        if (!how || !wrap_open(&op, API_##symbol, kind, stream_key(variant, stream)))                                  \
            return REAL(symbol, variant)(stream, count, paramArray, flags);                                            \
        op.flags |= how & TOUCH_READ ? OP_GATED : 0;                                                                   \
        stream_touch_words(&op, paramArray, count);                                                                    \
        wrap_admit(&op);                                                                                               \
        CUresult status = RUN(&op, REAL(symbol, variant)(stream, count, paramArray, flags));                           \
        wrap_close(&op, status);                                                                                       \
        return status;                                                                                                 \
    }

BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)

/* A capture ends with its stream. */
CUresult custom_cuStreamDestroy_v2(int variant, CUstream hStream) {
    struct capture *c = hStream ? capture_take(stream_key(variant, hStream)) : NULL;
    CUresult status = REAL(cuStreamDestroy_v2, variant)(hStream);
    if (c && status != CUDA_SUCCESS)
        capture_put_back(c);
    else if (c)
        capture_over(c);
    return status;
}
