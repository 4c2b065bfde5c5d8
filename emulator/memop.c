/* Waiting for a word of memory in a stream, and writing one. */
#include "cost.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLL_NS = 20000 };

static bool satisfied(uint64_t seen, uint64_t wanted, unsigned how, unsigned bits) {
    uint64_t mask = bits == 64 ? UINT64_MAX : UINT32_MAX;
    seen &= mask;
    wanted &= mask;
    switch (how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic */
        return bits == 64 ? (int64_t)(seen - wanted) >= 0 : (int32_t)(uint32_t)(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & wanted) != 0;
    default:
        return (~(seen | wanted) & mask) != 0;
    }
}

static uint64_t load(const void *word, unsigned bits) {
    return bits == 64 ? __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

static void wait_for(struct emu_launch *r, const CUstreamBatchMemOpParams *p, unsigned bits) {
    const void *word = emu_use(r, p->waitValue.address, bits / 8, EMU_READ);
    uint64_t wanted = bits == 64 ? p->waitValue.value64 : p->waitValue.value;
    bool waited = false;
    while (!satisfied(load(word, bits), wanted, p->waitValue.flags, bits)) {
        if (atomic_load(&r->stale) || atomic_load(&r->context->error))
            return;
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
        waited = true;
    }
    if (waited && cost_counts())
        r->clock = cost_now();
}

static void write_to(struct emu_launch *r, const CUstreamBatchMemOpParams *p, unsigned bits) {
    void *word = emu_use(r, p->writeValue.address, bits / 8, EMU_WRITE);
    if (bits == 64)
        __atomic_store_n((uint64_t *)word, p->writeValue.value64, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)word, p->writeValue.value, __ATOMIC_RELEASE);
}

void memops_run(const struct memops *m, struct emu_launch *r) {
    for (size_t i = 0; i < m->count; i++) {
        const CUstreamBatchMemOpParams *p = &m->ops[i];
        switch (p->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            wait_for(r, p, 32);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            wait_for(r, p, 64);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            write_to(r, p, 32);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            write_to(r, p, 64);
            break;
        default: /* barriers: everything here is in order anyway */
            break;
        }
    }
    /* Words cost no bandwidth. */
    r->device_bytes = r->host_read = r->host_written = 0;
}

/* A word has to be somewhere that does not move: the driver refuses managed memory. */
static CUresult check_word(uint64_t address, unsigned bytes) {
    struct area a;
    if (address % bytes || !area_find(address, &a) || a.kind == AREA_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult memops_check(const CUstreamBatchMemOpParams *ops, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CUresult result = CUDA_SUCCESS;
        switch (ops[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            result = check_word(ops[i].waitValue.address, 4);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            result = check_word(ops[i].waitValue.address, 8);
            break;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

bool memops_copy(struct memops *m, const CUstreamBatchMemOpParams *ops, size_t n) {
    m->count = n;
    m->ops = malloc((n ? n : 1) * sizeof *ops);
    if (m->ops && n)
        memcpy(m->ops, ops, n * sizeof *ops);
    return m->ops != NULL;
}

static CUresult issue(CUstream s, const CUstreamBatchMemOpParams *ops, size_t n) {
    CUresult result = memops_check(ops, n);
    if (result != CUDA_SUCCESS)
        return result;
    struct work w = {.kind = WORK_MEMOPS};
    if (!memops_copy(&w.memops, ops, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return stream_issue(s, &w);
}

static CUresult wait_value(CUstream s, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                           unsigned flags) {
    if (flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH))
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamBatchMemOpParams p = {.waitValue = {.operation = type, .address = address, .flags = flags}};
    p.waitValue.value64 = value; /* its low half is value */
    return issue(s, &p, 1);
}

static CUresult write_value(CUstream s, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value,
                            unsigned flags) {
    if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamBatchMemOpParams p = {.writeValue = {.operation = type, .address = address, .flags = flags}};
    p.writeValue.value64 = value;
    return issue(s, &p, 1);
}

/* Both versions mean the same. */
#define WORD(symbol, what, bits, operation)                                                                            \
    STREAMED(symbol, _ptsz, (CUstream stream, CUdeviceptr address, cuuint##bits##_t value, unsigned flags),            \
             (stream, address, value, flags)) {                                                                        \
        BEGIN_ON(stream);                                                                                              \
        return what(s, operation, address, value, flags);                                                              \
    }

WORD(cuStreamWaitValue32, wait_value, 32, CU_STREAM_MEM_OP_WAIT_VALUE_32)
WORD(cuStreamWaitValue32_v2, wait_value, 32, CU_STREAM_MEM_OP_WAIT_VALUE_32)
WORD(cuStreamWaitValue64, wait_value, 64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
WORD(cuStreamWaitValue64_v2, wait_value, 64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
WORD(cuStreamWriteValue32, write_value, 32, CU_STREAM_MEM_OP_WRITE_VALUE_32)
WORD(cuStreamWriteValue32_v2, write_value, 32, CU_STREAM_MEM_OP_WRITE_VALUE_32)
WORD(cuStreamWriteValue64, write_value, 64, CU_STREAM_MEM_OP_WRITE_VALUE_64)
WORD(cuStreamWriteValue64_v2, write_value, 64, CU_STREAM_MEM_OP_WRITE_VALUE_64)

static CUresult batch(CUstream s, unsigned n, const CUstreamBatchMemOpParams *ops, unsigned flags) {
    if (!ops || n == 0 || n > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return issue(s, ops, n);
}

STREAMED(cuStreamBatchMemOp, _ptsz, (CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
         (stream, n, ops, flags)) {
    BEGIN_ON(stream);
    return batch(s, n, ops, flags);
}

STREAMED(cuStreamBatchMemOp_v2, _ptsz, (CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags),
         (stream, n, ops, flags)) {
    BEGIN_ON(stream);
    return batch(s, n, ops, flags);
}
