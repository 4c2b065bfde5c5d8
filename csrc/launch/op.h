/* An operation, from the call that issues it to what is recorded of it. Lives on the issuing thread's stack. */
#ifndef ULMS_OP_H
#define ULMS_OP_H

#include "base/thread.h"

enum op_kind {
    OP_LAUNCH, /* one kernel */
    OP_COPY,
    OP_MEMSET,
    OP_GRAPH,  /* one launch of an instantiated graph: kernels > 1 */
    OP_HOST,   /* a host function in a stream: touches nothing */
    OP_RECORD, /* an event recorded; object: the event */
    OP_AFTER,  /* a stream made to wait; object: the event, or 0: for a word, which it touches */
    OP_WAIT,   /* the host waited; object: stream, event, a context, or 0 for the whole current one */
    OP_KINDS
};

enum op_flag {
    OP_CAPTURED = 1,  /* went into a stream capture: nothing ran */
    OP_UNMATCHED = 2, /* a launch with arguments of which none was an address in the ledger */
    OP_BLIND = 4,     /* a launch whose parameter layout is unknown, or a graph that could not be read */
    OP_EXTRA = 8,     /* its arguments came through `extra` */
    OP_HIDES = 16,    /* it uses addresses in device memory that we do not know */
    OP_REFUSED = 32,  /* by the backend: the driver never has it */
    OP_ROAMS = 64,    /* a kernel of it may follow addresses that lie in memory: it is not trusted */
    OP_WHOLE = 128,   /* it has all that a library's call was handed whose kernels are one operation, and no more */
    OP_GATED = 256,   /* part of it waits for what the host does: a word, a host function, another process */
    OP_UNREAD = 512,  /* it roams as long as its kernel's code has not been read */
};

struct op {
    uint64_t serial;    /* order of issue in the process, from 1 */
    uint64_t issued_ns; /* CLOCK_MONOTONIC, before the real call */
    uint64_t stream;    /* CUstream; the default streams as 1 (legacy) and 2 (per thread) */
    uint64_t object;
    uint32_t function; /* id from launch/function.h; 0: none */
    uint32_t kernels;  /* kernels it runs */
    uint16_t api;      /* enum api (generated): which call of the program, a library's perhaps */
    uint16_t flags;    /* enum op_flag */
    uint8_t kind;      /* enum op_kind */
    int32_t device;    /* CUDA ordinal or DEVICE_NONE when not asked */
    int32_t status;    /* CUresult of the real call; before it, if not 0: what the program is told instead */
    uint32_t count;    /* touches */
    struct touch *touches;
    const void *from; /* host memory that it brings to the device, from_bytes of it; NULL: not noted */
    uint64_t from_bytes;
    struct stamp *stamp; /* its device time being taken, or NULL */
    const uint64_t *others;
    uint32_t other_count; /* streams that it runs in, too, and is done at its own time */
};

/* What is behind it in its stream may wait for what a thread of the program does next. */
static inline bool op_gates(const struct op *op) {
    return op->kind == OP_HOST || (op->kind == OP_AFTER && !op->object) || op->flags & OP_GATED;
}

#endif
