
#include "interpose/record/wrap.h"
#include "base/hot.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/record/bounds.h"
#include "interpose/record/timing.h"
#include "interpose/replace/deferred_free.h"
#include "observe/stats.h"
#include "observe/trace.h"

HOT bool wrap_open(struct op *op, enum api api, enum op_kind kind, uint64_t stream) {
    if (!session_on)
        return false;
    struct thread *self = thread_self();
    if (!self || self->inside)
        return false;
    self->inside++;
    *op = (struct op){
        .stream = stream,
        .api = self->call.open ? self->call.api : (uint16_t)api,
        .kind = (uint8_t)kind,
        .kernels = kind == OP_LAUNCH,
        .device = DEVICE_NONE,
        .touches = self->touches,
    };
    if (capture_any() && capture_holds(stream))
        op->flags |= OP_CAPTURED;
    if (trace_on) {
        op->serial = serial_next();
        op->issued_ns = clock_ns();
        op->device = context_device();
    }
    return true;
}

static SELDOM void refuse(struct op *op) {
    op->status = (int32_t)bounds_refusal(op->stream);
}

bool wrap_touch_around(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode) {
    struct allocation a;
    if (bytes == 0)
        return false;
    /* an address of host memory, given where either is allowed, is in no allocation */
    if (!ledger_may_hold(session.ledger, start) || !ledger_find(session.ledger, start, &a)) {
        if (bounds_outside(start))
            refuse(op);
        return false;
    }
    if (bounds_left(&a, start, bytes))
        refuse(op);
    if (op->count == TOUCH_MAX)
        return false;
    op->touches[op->count++] = (struct touch){
        .start = start, .bytes = bytes, .allocation = a.id, .mode = (uint8_t)mode, .source = SOURCE_CALL};
    return true;
}

void wrap_touch(struct op *op, addr_t start, uint64_t bytes, enum touch_mode mode) {
    if (wrap_touch_around(op, start, bytes, mode))
        ledger_unsplit(session.ledger, start, bytes);
}

/* Addresses that were copied to where it writes, or may write, lie there no more. */
static SELDOM void overwrite_tables(const struct op *op) {
    if (op->flags & (OP_BLIND | OP_HIDES) || op->count == TOUCH_MAX)
        ledger_tables_doubt(session.ledger);
    ledger_tables_touched(session.ledger, op->touches, op->count);
}

HOT void wrap_admit(struct op *op) {
    if (wrap_refused(op))
        return;
    if (__builtin_expect(ledger_any_table(session.ledger), 0)) /* also of a capture: what follows in it is told so */
        overwrite_tables(op);
    if (op->flags & OP_CAPTURED) {
        if (session.still_begin && (op->kind == OP_COPY || op->kind == OP_MEMSET))
            session.still_begin(op);
        return;
    }
    if (session.admit)
        session.admit(op);
    if (trace_on)
        timing_before(op);
}

/* Most touches of an operation come from one source: what is counted in one word does not wait for memory. TOUCH_MAX
 * of them at most. */
static inline void count_touches(struct counts here, const struct touch *t, uint32_t count) {
    enum { BITS = 12 };
    _Static_assert(TOUCH_MAX < 1 << BITS && SOURCE_COUNT * BITS <= 64, "each count has room");
    uint64_t bytes = 0, counts = 0;
    for (const struct touch *end = t + count; t < end; t++) {
        bytes += t->bytes;
        counts += (uint64_t)1 << t->source * BITS;
    }
    for (enum counter c = COUNT_touches_call; counts; c++, counts >>= BITS)
        if (counts % (1 << BITS))
            counts_add(here, c, counts % (1 << BITS));
    if (bytes)
        counts_add(here, COUNT_touched_bytes, bytes);
}

/* A graph may have any number. */
static SELDOM void count_many_touches(struct counts here, const struct op *op) {
    for (uint32_t from = 0; from < op->count; from += TOUCH_MAX) {
        uint32_t left = op->count - from;
        count_touches(here, op->touches + from, left < TOUCH_MAX ? left : TOUCH_MAX);
    }
}

static SELDOM void count_odd(struct counts here, const struct op *op) {
    if (op->flags & OP_EXTRA)
        counts_add(here, COUNT_launches_extra, 1);
    if (op->flags & OP_UNMATCHED)
        counts_add(here, COUNT_launches_unmatched, 1);
    if (op->flags & OP_BLIND && op->kind == OP_LAUNCH)
        counts_add(here, COUNT_launches_blind, 1);
    if (op->flags & OP_ROAMS)
        counts_add(here, COUNT_untrusted, 1);
}

static HOT void count(const struct op *op) {
    static const enum counter by_kind[OP_KINDS] = {[OP_LAUNCH] = COUNT_launches,
                                                   [OP_COPY] = COUNT_copies,
                                                   [OP_MEMSET] = COUNT_memsets,
                                                   [OP_GRAPH] = COUNT_graph_launches,
                                                   [OP_WAIT] = COUNT_waits};
    struct counts here = stats_here();
    stats_beat(counts_add(here, COUNT_operations, 1));
    if (by_kind[op->kind])
        counts_add(here, by_kind[op->kind], 1);
    if (op->kernels)
        counts_add(here, COUNT_kernels, op->kernels);
    if (__builtin_expect(op->count > TOUCH_MAX, 0))
        count_many_touches(here, op);
    else if (op->count)
        count_touches(here, op->touches, op->count);
    if (op->kind == OP_COPY && op->count)
        counts_add(here, COUNT_copied_bytes, op->touches[0].bytes);
    if (__builtin_expect(op->flags & (OP_EXTRA | OP_UNMATCHED | OP_BLIND | OP_ROAMS), 0))
        count_odd(here, op);
}

static SELDOM void trace(const struct op *op) {
    static bool named[API_COUNT];
    if (!__atomic_exchange_n(&named[op->api], true, __ATOMIC_RELAXED))
        trace_api(op->api, api_rows[op->api].symbol);
    trace_op(op);
}

HOT void wrap_close(struct op *op, CUresult status) {
    bool admitted = !wrap_refused(op) || op->flags & OP_REFUSED;
    op->status = (int32_t)status;
    if (op->flags & OP_CAPTURED) {
        if (session.still_end)
            session.still_end();
        if (status == CUDA_SUCCESS) {
            stats_add(COUNT_captured, 1);
            capture_note(op);
        }
    } else if (admitted) {
        if (trace_on)
            timing_after(op);
        if (session.settle)
            session.settle(op);
        if (op->kind == OP_WAIT)
            deferred_waited(op->object ? 0 : context_current());
        if (status == CUDA_SUCCESS)
            count(op);
    }
    if (trace_on)
        trace(op);
    thread_here.inside--;
}
