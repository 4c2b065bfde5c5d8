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
    for (unsigned int i = 0; i < count; i++)
        wrap_touch(op, list[i].writeValue.address, written(&list[i]), TOUCH_WRITE);
}

/* Both versions mean the same. */
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
