#include "observe/trace.h"

#include <string.h>

#include "base/hot.h"
#include "base/lock.h"
#include "observe/format.h"
#include "observe/ring.h"
#include "observe/writer.h"

/* Longer ones are cut or go out in parts, so that a ring always has room for what matters. */
enum { NAME_BYTES = 4096, PART_TOUCHES = 1024, PART_POINTERS = 4096 };

_Static_assert(sizeof(struct op_record) + TOUCH_MAX * sizeof(struct touch_record) <= RING_BYTES / 4, "fits a ring");
_Static_assert(sizeof(struct op_record) + 3 * sizeof(struct touch_record) <= 128, "the usual launch stays small");

HOT_DATA _Atomic bool trace_on;

static void leave_ring(struct thread *t) {
    if (t->ring)
        ring_leave(t->ring);
    t->ring = NULL;
}

static void promise_to_leave(void) {
    static struct thread_end at_end = {.run = leave_ring};
    thread_at_end(&at_end);
}

static struct ring *own_ring(void) {
    struct thread *t = thread_self();
    if (t && !t->ring)
        t->ring = ring_take(t->id);
    return t ? t->ring : NULL;
}

/* Room for a record of that many bytes, its head filled in; NULL: dropped. `keep`: later records refer to this one, so
 * it may have what is left when others are dropped. Pairs with hand_over. */
static void *fill(enum record_type type, size_t bytes, uint64_t serial, uint64_t time_ns, bool keep) {
    struct ring *ring = own_ring();
    if (!ring) {
        writer_lose();
        return NULL;
    }
    struct record *r = ring_fill(ring, (uint32_t)bytes, keep);
    if (r)
        *r = (struct record){(uint16_t)type, (uint16_t)(bytes / 8), thread_self()->id, serial, time_ns};
    return r;
}

static void *fill_now(enum record_type type, size_t bytes, bool keep) {
    return fill(type, bytes, serial_next(), clock_ns(), keep);
}

static void hand_over(void) {
    if (ring_commit(thread_self()->ring))
        writer_wake();
}

static void pack(struct touch_record *out, const struct touch *touches, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct touch *t = &touches[i];
        out[i].start = t->start;
        out[i].bytes = t->bytes;
        out[i].tail = (t->allocation & 0xffffffffffff) | (uint64_t)t->mode << 48 | (uint64_t)t->sparse << 55 |
                      (uint64_t)t->source << 56;
    }
}

bool trace_open(const char *path, const char *header) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, promise_to_leave);
    trace_on = true; /* before the writer can have failed */
    bool opened = writer_open(path, header);
    if (!opened)
        trace_on = false;
    return opened;
}

void trace_op(const struct op *op) {
    uint32_t count = op->kind == OP_GRAPH ? 0 : op->count;
    size_t bytes = sizeof(struct op_record) + count * sizeof(struct touch_record);
    struct op_record *r = fill(RECORD_OP, bytes, op->serial, op->issued_ns, false);
    if (!r)
        return;
    r->stream = op->stream;
    r->object = op->object;
    r->function = op->function;
    r->kernels = op->kernels;
    r->api = op->api;
    r->status = (int16_t)op->status;
    r->kind = op->kind;
    r->flags = op->flags;
    r->device = (int8_t)op->device;
    r->unused = 0;
    pack(r->touches, op->touches, count);
    hand_over();
}

void trace_retired(uint64_t serial, uint64_t start_ns, uint64_t ns) {
    struct retired_record *r = fill_now(RECORD_RETIRED, sizeof *r, false);
    if (!r)
        return;
    r->operation = serial;
    r->start_ns = start_ns;
    r->ns = ns;
    hand_over();
}

void trace_allocation(const struct allocation *a, bool born) {
    struct allocation_record *r = fill_now(born ? RECORD_BIRTH : RECORD_DEATH, sizeof *r, true);
    if (!r)
        return;
    r->start = a->start;
    r->bytes = a->bytes;
    r->id = a->id;
    r->charged = a->charged;
    r->context = a->context;
    r->device = a->device;
    r->kind = a->kind;
    hand_over();
}

void trace_block(addr_t start, uint64_t bytes, bool born) {
    struct block_record *r = fill_now(born ? RECORD_BLOCK : RECORD_UNBLOCK, sizeof *r, true);
    if (!r)
        return;
    r->start = start;
    r->bytes = bytes;
    hand_over();
}

static void name(enum record_type type, uint32_t id, const char *text) {
    size_t length = strnlen(text, NAME_BYTES), padded = (length + 7) & ~(size_t)7;
    struct name_record *r = fill_now(type, sizeof *r + padded, true);
    if (!r)
        return;
    r->id = id;
    r->bytes = (uint32_t)length;
    memcpy(r->text, text, length);
    memset(r->text + length, 0, padded - length);
    hand_over();
}

void trace_function(uint32_t id, const char *text) {
    name(RECORD_FUNCTION, id, text);
}

void trace_api(uint16_t api, const char *symbol) {
    name(RECORD_API, api, symbol);
}

void trace_graph(uint64_t exec, uint32_t kernels, const struct touch *touches, uint32_t count) {
    for (uint32_t first = 0; first == 0 || first < count; first += PART_TOUCHES) {
        uint32_t n = count - first < PART_TOUCHES ? count - first : PART_TOUCHES;
        struct graph_record *r = fill_now(RECORD_GRAPH, sizeof *r + n * sizeof r->touches[0], true);
        if (!r)
            return;
        r->exec = exec;
        r->kernels = kernels;
        r->first = first;
        r->total = count;
        pack(r->touches, touches + first, n);
        hand_over();
    }
}

void trace_table(addr_t start, uint64_t bytes, const addr_t *pointers, uint32_t count) {
    for (uint32_t first = 0; first == 0 || first < count; first += PART_POINTERS) {
        uint32_t n = count - first < PART_POINTERS ? count - first : PART_POINTERS;
        struct table_record *r = fill_now(RECORD_TABLE, sizeof *r + n * sizeof r->pointers[0], true);
        if (!r)
            return;
        r->start = start;
        r->bytes = bytes;
        r->first = first;
        r->total = count;
        for (uint32_t i = 0; i < n; i++)
            r->pointers[i] = pointers[first + i];
        hand_over();
    }
}

void trace_move(int32_t device, const struct ulms_move *m, unsigned also, uint64_t begun_ns, uint64_t resident) {
    struct move_record *r = fill_now(RECORD_MOVE, sizeof *r, false);
    if (!r)
        return;
    r->start = m->start;
    r->bytes = m->bytes;
    r->begun_ns = begun_ns;
    r->resident = resident;
    r->device = device;
    r->kind = (uint16_t)m->kind;
    r->flags = (uint16_t)(m->flags | also);
    hand_over();
}

void trace_hold(int32_t device, uint64_t serial, uint64_t begun_ns, uint64_t ns, uint64_t missing) {
    struct hold_record *r = fill_now(RECORD_HOLD, sizeof *r, false);
    if (!r)
        return;
    r->operation = serial;
    r->begun_ns = begun_ns;
    r->ns = ns;
    r->missing = missing;
    r->device = device;
    r->unused = 0;
    hand_over();
}

void trace_close(void) {
    trace_on = false;
    writer_close();
}

void trace_fork_child(void) {
    trace_on = false;
    writer_forget();
    ring_forget();
}
