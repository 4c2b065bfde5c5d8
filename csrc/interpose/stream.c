#include "interpose/stream.h"

#include "interpose/wrap.h"

/* Bytes that it writes; 0: it waits, or keeps order. */
static uint64_t written(const CUstreamBatchMemOpParams *p) {
    return p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32   ? 4
           : p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8
                                                             : 0;
}

static bool any_written(const CUstreamBatchMemOpParams *list, unsigned int count) {
    bool any = false;
    for (unsigned int i = 0; list && i < count && !any; i++)
        any = written(&list[i]) > 0;
    return any;
}

void stream_touch_words(struct op *op, const CUstreamBatchMemOpParams *list, unsigned int count) {
    for (unsigned int i = 0; i < count; i++) {
        wrap_touch(op, list[i].writeValue.address, written(&list[i]), TOUCH_WRITE);
        if (written(&list[i]) == sizeof(uint64_t))
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
        if (!any_written(paramArray, count) || !wrap_open(&op, API_##symbol, OP_MEMSET, stream_key(variant, stream)))  \
            return REAL(symbol, variant)(stream, count, paramArray, flags);                                            \
        stream_touch_words(&op, paramArray, count);                                                                    \
        wrap_admit(&op);                                                                                               \
        CUresult status = RUN(&op, REAL(symbol, variant)(stream, count, paramArray, flags));                           \
        wrap_close(&op, status);                                                                                       \
        return status;                                                                                                 \
    }

BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_v2)
