#include "launch/call_extents.h"

#include "base/hot.h"

static HOT_CALL void list(struct call *call) {
    call->listed = call->front < LISTED_MAX ? call->front : LISTED_MAX;
    for (uint32_t i = 0; i < call->listed; i++) {
        const struct touch *t = &call->touches[i];
        call->given[i] = t->start - t->before;
        call->reach[i] = t->before + t->bytes;
    }
}

static SELDOM bool lies_behind_list(const struct call *call, addr_t p) {
    for (uint32_t i = LISTED_MAX; i < call->front; i++) {
        const struct touch *t = &call->touches[i];
        if (p - (t->start - t->before) < t->before + t->bytes)
            return true;
    }
    return false;
}

/* Of the list, no branch depends on p. */
HOT bool call_extents_show(struct call *call, addr_t p) {
    uint32_t in = 0;
    if (__builtin_expect(call->listed != call->front && call->listed != LISTED_MAX, 0))
        list(call);
    for (uint32_t i = 0, n = call->listed; i < n; i++)
        in |= (uint32_t)(p - call->given[i] < call->reach[i]) << i;
    call->shown |= in;
    return in || (__builtin_expect(call->front > LISTED_MAX, 0) && lies_behind_list(call, p));
}

/* Of a launch that shows some of what was told. What is written may be meant by an address in what is read. */
static inline bool is_meant(const struct call *call, uint32_t i) {
    return i >= LISTED_MAX || call->shown >> i & 1 || call->touches[i].mode != TOUCH_READ;
}

HOT void call_extents_carry(struct call *call, struct op *op) {
    uint32_t found = op->count;
    bool all = !call->carried || !call->shown;
    bool whole = call->together && !call->carried && !found && !call->hides;
    op->flags = (uint16_t)((op->flags & ~OP_WHOLE) | (whole ? OP_WHOLE : 0));
    if (call->hides || call->front + call->back == 0)
        op->flags |= OP_HIDES;
    for (uint32_t i = 0; i < call->front && op->count < TOUCH_MAX; i++)
        if (all || is_meant(call, i))
            op->touches[op->count++] = call->touches[i];
    for (uint32_t i = TOUCH_MAX - call->back; i < TOUCH_MAX && op->count < TOUCH_MAX; i++)
        op->touches[op->count++] = call->touches[i];
    call->carried = true;
    call->shown = 0;
    if (op->count > found)
        op->flags &= (uint16_t)~OP_UNMATCHED;
}

static bool lies_in(const struct touch *t, const struct touch *known) {
    bool may = t->mode == TOUCH_READ || known->mode != TOUCH_READ;
    return may && t->start >= known->start && t->start + t->bytes <= known->start + known->bytes;
}

static bool is_told(const struct call *call, const struct touch *t) {
    bool in = false;
    for (uint32_t i = 0; i < call->front && !in; i++)
        in = lies_in(t, &call->touches[i]);
    for (uint32_t i = TOUCH_MAX - call->back; i < TOUCH_MAX && !in; i++)
        in = lies_in(t, &call->touches[i]);
    return in;
}

bool call_extents_cover(const struct op *op) {
    const struct call *call = call_under_way();
    bool all = call && call->together && !call->hides && !(op->flags & (OP_BLIND | OP_HIDES));
    if (all && op->kernels > 0 && call_extents_suffice(call))
        return true; /* which may be very many */
    for (uint32_t i = 0; i < op->count && all; i++)
        all = is_told(call, &op->touches[i]);
    return all;
}

void call_extents_again(void) {
    struct call *call = call_under_way();
    if (call)
        call->carried = false;
}
