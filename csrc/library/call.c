#include "library/call.h"

#include "backend/backend.h"
#include "base/hot.h"
#include "driver/fast_path.h"
#include "driver/session.h"
#include "launch/call_extents.h"

/* Touches that are looked through for one that starts where a new one does; addresses read at a time. */
enum { JOIN_MAX = 32, ARRAY_PIECE = 128 };

HOT_CALL struct call *call_open(enum api api, enum call_use use) {
    if (!session_on || !session.hears_calls)
        return NULL;
    struct thread *self = thread_self();
    const char *frame = __builtin_frame_address(0);
    if (!self || (self->call.open && frame < self->call.frame)) /* else a jump has left that one behind */
        return NULL;
    self->call.open = true;
    self->call.frame = frame;
    self->call.carried = false;
    self->call.together = use >= CALL_TOGETHER;
    self->call.whole = use == CALL_WHOLE;
    self->call.unread = self->call.hides = use != CALL_BUILDS && fast_path_but_for_tables();
    self->call.api = (uint16_t)api;
    self->call.front = self->call.back = self->call.listed = self->call.shown = 0;
    if (self->call.unread)
        return &self->call;
    addr_t high;
    ledger_bounds(session.ledger, &self->call.low, &high);
    self->call.size = high - self->call.low;
    near_clear(&self->call.starts, false);
    return &self->call;
}

HOT_CALL void call_close(struct call *call) {
    call->open = false;
    if (call->together && session.backend->returned)
        session.backend->returned();
}

static bool full(const struct call *call) {
    return call->front + call->back == TOUCH_MAX;
}

/* One place told twice: the longer extent, and both modes. It is a guess if one of them is. */
static bool join(struct touch *known, const struct touch *t) {
    if (known->start != t->start)
        return false;
    if (known->bytes < t->bytes)
        known->bytes = t->bytes;
    if (known->before < t->before)
        known->before = t->before;
    if (known->mode != t->mode)
        known->mode = TOUCH_UPDATE;
    if (t->source == SOURCE_OBSERVED)
        known->source = SOURCE_OBSERVED;
    return true;
}

/* Cheap, and false of most that is no device address. */
static inline bool may_be(const struct call *call, addr_t p) {
    return p - call->low < call->size;
}

/* Where the next touch is made, in place: copying one just made would wait for each of its parts. NULL: there is no
 * room, or start is not in the ledger. */
static inline struct touch *front(struct call *call, addr_t start) {
    return may_be(call, start) && !full(call) ? &call->touches[call->front] : NULL;
}

static SELDOM bool join_front(struct call *call, const struct touch *t) {
    call->listed = 0;
    for (uint32_t i = 0; i < call->front && i < JOIN_MAX; i++)
        if (join(&call->touches[i], t))
            return true;
    return false;
}

static inline void keep_front(struct call *call) {
    const struct touch *t = &call->touches[call->front];
    if (__builtin_expect(near_meet(&call->starts, t->start), 0) && join_front(call, t))
        return;
    call->front++;
}

/* Where the span lies; false when it is empty. */
static inline bool place(addr_t start, struct span span, unsigned bits, enum touch_mode mode, struct touch *t) {
    if (span.high <= span.low)
        return false;
    int64_t low = span.low * (int64_t)bits, high = span.high * (int64_t)bits;
    bool keeps = span.holes && mode != TOUCH_READ; /* what lies between */
    *t = (struct touch){
        .start = start + (addr_t)(low >> 3),
        .bytes = (uint64_t)(((high + 7) >> 3) - (low >> 3)),
        .mode = (uint8_t)(keeps ? TOUCH_UPDATE : mode),
        .source = SOURCE_LIBRARY,
        .before = low > 0 ? (uint32_t)(low >> 3) : 0,
    };
    return true;
}

static bool tell(struct touch *t) {
    t->allocation = ledger_block_tell(session.ledger, t->start, t->bytes);
    return t->allocation != 0;
}

HOT_CALL void call_touch(struct call *call, addr_t start, struct span span, unsigned bits, enum touch_mode mode) {
    struct touch *t = front(call, start);
    if (t && place(start, span, bits, mode, t))
        keep_front(call);
}

void call_take(struct call *call, const struct touch *touches, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct touch *t = front(call, touches[i].start);
        if (t) {
            *t = touches[i];
            keep_front(call);
        }
    }
}

HOT_CALL void call_told(struct call *call) {
    call->front = (uint32_t)ledger_blocks_tell(session.ledger, call->touches, call->front);
}

/* The best known one. */
static bool find_block(addr_t p, struct touch *t) {
    if (!ledger_extent(session.ledger, p, t))
        return false;
    call_extents_elsewhere(t);
    return true;
}

void call_block(struct call *call, addr_t p, enum touch_mode mode) {
    struct touch *t = front(call, p);
    if (!t || !find_block(p, t))
        return;
    t->mode = (uint8_t)mode;
    t->before = 0; /* not of what was told in its place before */
    keep_front(call);
}

/* Bytes from start to the end of the framework's block, or of the allocation: other ends are guesses. 0: in neither. */
static uint64_t room(addr_t start, uint64_t *allocation) {
    struct allocation a;
    struct touch known;
    if (!ledger_extent(session.ledger, start, &known))
        return 0;
    *allocation = known.allocation;
    if (known.source == SOURCE_FRAMEWORK)
        return known.start + known.bytes - start;
    return ledger_find(session.ledger, start, &a) ? a.start + a.bytes - start : 0;
}

void call_within(struct call *call, addr_t start, struct span span, unsigned bits, enum touch_mode mode) {
    struct touch *t = front(call, start);
    if (!t || !place(start, span, bits, mode, t))
        return;
    uint64_t left = room(t->start, &t->allocation);
    t->bytes = t->bytes < left ? t->bytes : left;
    if (left)
        keep_front(call);
}

/* Matrices side by side become one touch, as most batches are. */
static void add_run(struct call *call, struct touch *run, const struct touch *t) {
    if (t && run->bytes && run->start + run->bytes == t->start) {
        run->bytes += t->bytes;
        return;
    }
    if (run->bytes && !full(call) && tell(run))
        call->touches[TOUCH_MAX - ++call->back] = *run;
    if (t)
        *run = *t;
}

/* At most n addresses that the array holds, or may hold; 0 where too many are known. */
static size_t read_array(struct call *call, addr_t array, size_t n, addr_t *pointers) {
    size_t bytes = n * sizeof(addr_t), found = n;
    bool sure;
    if (!ledger_table_read(session.ledger, array, n, pointers, &sure)) {
        found = ledger_table_find(session.ledger, array, bytes, pointers, n);
        sure = found <= n && ledger_table_sure(session.ledger, array, bytes);
    }
    call->hides = call->hides || !sure;
    return found <= n ? found : 0;
}

void call_pointed(struct call *call, addr_t array, int64_t count, struct span span, unsigned bits,
                  enum touch_mode mode) {
    addr_t pointers[ARRAY_PIECE];
    struct touch run = {0}, t;
    if (!may_be(call, array))
        return;
    for (int64_t at = 0; at < count; at += ARRAY_PIECE) {
        size_t n = count - at < ARRAY_PIECE ? (size_t)(count - at) : ARRAY_PIECE;
        n = read_array(call, array + (addr_t)at * sizeof(addr_t), n, pointers);
        for (size_t i = 0; i < n; i++)
            if (may_be(call, pointers[i]) && place(pointers[i], span, bits, mode, &t))
                add_run(call, &run, &t);
    }
    add_run(call, &run, NULL);
}

void call_pointed_blocks(struct call *call, addr_t array, int64_t count, enum touch_mode mode) {
    addr_t pointers[ARRAY_PIECE];
    struct touch t = {.mode = (uint8_t)mode};
    if (!may_be(call, array))
        return;
    for (int64_t at = 0; at < count; at += ARRAY_PIECE) {
        size_t n = count - at < ARRAY_PIECE ? (size_t)(count - at) : ARRAY_PIECE;
        n = read_array(call, array + (addr_t)at * sizeof(addr_t), n, pointers);
        for (size_t i = 0; i < n && !full(call); i++)
            if (find_block(pointers[i], &t))
                call->touches[TOUCH_MAX - ++call->back] = t;
    }
}

void call_array(struct call *call, addr_t array, int64_t count, struct span span, unsigned bits, enum touch_mode mode) {
    call_touch(call, array, library_count(count), 8 * sizeof(addr_t), TOUCH_READ);
    call_pointed(call, array, count, span, bits, mode);
}
