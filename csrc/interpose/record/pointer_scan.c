/* Addresses that copies from host memory bring to the device. */
#include "backend/backend.h"
#include "base/options.h"
#include "base/process.h"
#include "base/thread.h"
#include "driver/fast_path.h"
#include "driver/session.h"
#include "interpose/record/wrap.h"
#include "observe/stats.h"
#include "observe/trace.h"

/* Bytes: of copies whose addresses are kept; of those that are looked at where the backend has to know. */
enum { TABLE_MAX = 32 << 10, LOOK_MAX = 1 << 20, PIECE = 16 << 10 };
_Static_assert((int)TABLE_MAX <= (int)SCRATCH_BYTES && (int)PIECE <= (int)SCRATCH_BYTES, "they fit");

/* What nobody can read is no table without addresses. */
void wrap_try_reading(void) {
    if (!process_reads() && session.backend->pin_reachable)
        ulms_options.hidden = HIDDEN_ANY;
}

/* The addresses in a piece; false: it could not all be read. */
static bool pointers_find(const char *from, size_t bytes, addr_t *pointers, size_t *n) {
    struct allocation a;
    uint64_t *word = thread_scratch(SCRATCH_READ);
    addr_t low, high;
    size_t got = word ? process_read(word, from, bytes) : 0;
    ledger_bounds(session.ledger, &low, &high);
    for (size_t i = 0; i < got / sizeof word[0]; i++)
        if (word[i] - low < high - low && ledger_find(session.ledger, word[i], &a))
            pointers[(*n)++] = word[i];
    if (__builtin_expect(got < bytes, 0))
        wrap_try_reading();
    return got == bytes;
}

static size_t piece_at(uint64_t at, uint64_t bytes) {
    return bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
}

void wrap_look(const void *src, uint64_t bytes) {
    addr_t *pointers = thread_scratch(SCRATCH_FOUND);
    bool whole = pointers && session.backend->pin_reachable && bytes <= LOOK_MAX;
    for (uint64_t at = 0; whole && at < bytes; at += PIECE) {
        size_t n = 0;
        whole = pointers_find((const char *)src + at, piece_at(at, bytes), pointers, &n);
        if (n > 0)
            session.backend->pin_reachable(pointers, n);
    }
}

void wrap_hide(uint64_t word) {
    struct allocation a;
    if (session_on && session.backend->pin_reachable && ledger_may_hold(session.ledger, word) &&
        ledger_find(session.ledger, word, &a))
        session.backend->pin_reachable(&word, 1);
}

void wrap_from_host(struct op *op, const void *src, uint64_t bytes) {
    if (op->from)
        op->flags |= OP_BLIND; /* one is all that is kept */
    op->from = src;
    op->from_bytes = bytes;
}

/* Where pages move for addresses that are not known managed memory is looked at, too, though that brings it to the
 * host: what cannot be read is left out. */
bool wrap_host_writes(addr_t src) {
    struct allocation a;
    return !ledger_find(session.ledger, src, &a) || a.kind == MEMORY_HOST ||
           (a.kind == MEMORY_MANAGED && session.backend->pin_reachable);
}

/* The host, or a kernel, may store others there without telling. */
static bool is_managed(addr_t p) {
    struct allocation a;
    return ledger_find(session.ledger, p, &a) && a.kind == MEMORY_MANAGED;
}

void wrap_pointers(struct op *op, addr_t dst, const void *src, uint64_t bytes) {
    addr_t *pointers = thread_scratch(SCRATCH_FOUND);
    struct touch unsure = {.start = dst, .bytes = bytes, .mode = TOUCH_UPDATE};
    struct allocation to;
    size_t n = 0;
    bool whole = pointers && bytes <= TABLE_MAX;
    bool known = ledger_find(session.ledger, dst, &to);
    if ((known && to.kind == MEMORY_HOST) || !wrap_host_writes((addr_t)(uintptr_t)src))
        return;
    if (op->flags & OP_CAPTURED)
        wrap_from_host(op, src, bytes);
    if (!known) { /* as that of a graph's own allocation */
        wrap_look(src, bytes);
        return;
    }
    for (uint64_t at = 0; whole && at < bytes; at += PIECE)
        whole = pointers_find((const char *)src + at, piece_at(at, bytes), pointers, &n);
    ledger_table_set(session.ledger, dst, bytes, pointers, n);
    if (!whole || to.kind == MEMORY_MANAGED || is_managed((addr_t)(uintptr_t)src))
        ledger_tables_touched(session.ledger, &unsure, 1);
    if (bytes > TABLE_MAX)
        wrap_look(src, bytes);
    if (n == 0)
        return;
    fast_path_leave_for_table();
    if (session.backend->pin_reachable)
        session.backend->pin_reachable(pointers, n);
    stats_add(COUNT_tables, 1);
    stats_add(COUNT_table_pointers, n);
    if (trace_on)
        trace_table(dst, bytes, pointers, (uint32_t)n);
}

void wrap_pinned(struct op *op, addr_t dst, const void *src, uint64_t bytes) {
    if (session.backend->pin_reachable)
        wrap_pointers(op, dst, src, bytes);
}
