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

static bool is_wait(const CUstreamBatchMemOpParams *p) {
    return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

/* 0: a barrier. */
static unsigned bits_of(const CUstreamBatchMemOpParams *p) {
    switch (p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return 32;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return 64;
    default:
        return 0;
    }
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

/* Nothing is done for barriers: everything here is in order anyway. */
void memops_run(const struct memops *m, struct emu_launch *r) {
    for (const CUstreamBatchMemOpParams *p = m->ops; p < m->ops + m->count; p++)
        if (is_wait(p))
            wait_for(r, p, bits_of(p));
        else if (bits_of(p))
            write_to(r, p, bits_of(p));
    /* Words cost no bandwidth. */
    r->device_bytes = r->host_read = r->host_written = 0;
}

/* A word has to be somewhere that does not move: the driver refuses managed memory. */
CUresult memops_check(const CUstreamBatchMemOpParams *ops, size_t n) {
    for (const CUstreamBatchMemOpParams *p = ops; p < ops + n; p++) {
        struct area a;
        uint64_t address = p->waitValue.address;
        if (bits_of(p))
            INVALID_IF(address % (bits_of(p) / 8) || !area_find(address, &a) || a.kind == AREA_MANAGED);
        else
            INVALID_IF(p->operation != CU_STREAM_MEM_OP_BARRIER &&
                       p->operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
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
    TRY(memops_check(ops, n));
    struct work w = {.kind = WORK_MEMOPS};
    if (!memops_copy(&w.memops, ops, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return stream_issue(s, &w);
}

/* Of both widths: a value of 32 bits is the low half of one of 64. */
static CUresult word(CUstream s, CUstreamBatchMemOpType type, CUdeviceptr address, uint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams p = {.waitValue = {.operation = type, .address = address, .flags = flags}};
    p.waitValue.value64 = value;
    INVALID_IF(flags & ~(is_wait(&p) ? 3u | CU_STREAM_WAIT_VALUE_FLUSH : CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    return issue(s, &p, 1);
}

#define WORD(symbol, bits, operation)                                                                                  \
    CALL_ON(symbol, CUstream stream, CUdeviceptr address, cuuint##bits##_t value, unsigned flags) {                    \
        return word(s, operation, address, value, flags);                                                              \
    }                                                                                                                  \
    SAME(symbol##_v2, symbol);

WORD(cuStreamWaitValue32, 32, CU_STREAM_MEM_OP_WAIT_VALUE_32)
WORD(cuStreamWaitValue64, 64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
WORD(cuStreamWriteValue32, 32, CU_STREAM_MEM_OP_WRITE_VALUE_32)
WORD(cuStreamWriteValue64, 64, CU_STREAM_MEM_OP_WRITE_VALUE_64)

CALL_ON(cuStreamBatchMemOp, CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags) {
    INVALID_IF(!ops || n == 0 || n > 256 || flags);
    return issue(s, ops, n);
}
SAME(cuStreamBatchMemOp_v2, cuStreamBatchMemOp);
