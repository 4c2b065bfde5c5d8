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

/* A record whose head is left to this. */
static void tell(enum record_type type, const void *record, size_t bytes, bool keep) {
    struct record *r = fill_now(type, bytes, keep);
    if (!r)
        return;
    memcpy(r + 1, (const struct record *)record + 1, bytes - sizeof *r);
    hand_over();
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
    struct retired_record r = {.operation = serial, .start_ns = start_ns, .ns = ns};
    tell(RECORD_RETIRED, &r, sizeof r, false);
}

void trace_allocation(const struct allocation *a, bool born) {
    struct allocation_record r = {.start = a->start,
                                  .bytes = a->bytes,
                                  .id = a->id,
                                  .charged = a->charged,
                                  .context = a->context,
                                  .device = a->device,
                                  .kind = a->kind};
    tell(born ? RECORD_BIRTH : RECORD_DEATH, &r, sizeof r, true);
}

void trace_block(addr_t start, uint64_t bytes, bool born) {
    struct block_record r = {.start = start, .bytes = bytes};
    tell(born ? RECORD_BLOCK : RECORD_UNBLOCK, &r, sizeof r, true);
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
    struct move_record r = {.start = m->start,
                            .bytes = m->bytes,
                            .begun_ns = begun_ns,
                            .resident = resident,
                            .device = device,
                            .kind = (uint16_t)m->kind,
                            .flags = (uint16_t)(m->flags | also)};
    tell(RECORD_MOVE, &r, sizeof r, false);
}

void trace_hold(int32_t device, uint64_t serial, uint64_t begun_ns, uint64_t ns, uint64_t missing) {
    struct hold_record r = {.operation = serial, .begun_ns = begun_ns, .ns = ns, .missing = missing, .device = device};
    tell(RECORD_HOLD, &r, sizeof r, false);
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
