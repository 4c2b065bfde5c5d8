#include "launch/told.h"

#include "base/hot.h"

static HOT_CALL void list(struct call *call) {
    call->listed = call->front < LISTED_MAX ? call->front : LISTED_MAX;
    for (uint32_t i = 0; i < call->listed; i++) {
        const struct touch *t = &call->touches[i];
        call->given[i] = t->start - t->before;
        call->reach[i] = t->before + t->bytes;
    }
}

/* Spans with holes lie in each other: the one that was given as p is meant. */
static SELDOM uint32_t find_behind_list(const struct call *call, addr_t p) {
    uint32_t around = TOLD_NONE;
    for (uint32_t i = 0; i < call->front; i++) {
        const struct touch *t = &call->touches[i];
        addr_t given = t->start - t->before;
        if (p - given < t->before + t->bytes && (around == TOLD_NONE || given == p))
            around = i;
    }
    return around;
}

/* Of the list, no branch depends on p. */
HOT uint32_t told_find(struct call *call, addr_t p) {
    uint32_t in = 0, meant = 0;
    if (__builtin_expect(call->front > LISTED_MAX, 0))
        return find_behind_list(call, p);
    if (__builtin_expect(call->listed != call->front, 0))
        list(call);
    for (uint32_t i = 0, n = call->listed; i < n; i++) {
        in |= (uint32_t)(p - call->given[i] < call->reach[i]) << i;
        meant |= (uint32_t)(p == call->given[i]) << i;
    }
    if (!in)
        return TOLD_NONE;
    return (uint32_t)(meant ? 31 - __builtin_clz(meant) : __builtin_ctz(in));
}

static bool has(const struct op *op, uint32_t count, const struct touch *t) {
    for (uint32_t i = 0; i < count; i++)
        if (op->touches[i].start == t->start && op->touches[i].bytes == t->bytes)
            return true;
    return false;
}

static void carry(struct op *op, uint32_t found, const struct touch *t, uint32_t count) {
    for (uint32_t i = 0; i < count && op->count < TOUCH_MAX; i++)
        if (!has(op, found, &t[i]))
            op->touches[op->count++] = t[i];
}

HOT void told_carry(struct call *call, struct op *op) {
    uint32_t found = op->count;
    if (call->hides || call->front + call->back == 0)
        op->flags |= OP_HIDES;
    if (call->carried)
        return;
    call->carried = true;
    carry(op, found, call->touches, call->front);
    carry(op, found, &call->touches[TOUCH_MAX - call->back], call->back);
    if (op->count > found)
        op->flags &= (uint8_t)~OP_UNMATCHED;
}
