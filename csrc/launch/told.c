#include "launch/told.h"

#include "base/hot.h"

HOT bool told_find(const struct call *call, addr_t p, struct touch *out) {
    const struct touch *around = NULL; /* spans with holes lie in each other: the one that was given as p is meant */
    for (uint32_t i = 0; i < call->front; i++) {
        const struct touch *t = &call->touches[i];
        addr_t given = t->start - t->before;
        if (p - given < t->before + t->bytes && (!around || given == p))
            around = t;
    }
    if (around)
        *out = *around;
    return around != NULL;
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
    if (call->hides)
        op->flags |= OP_HIDES;
    if (call->carried)
        return;
    call->carried = true;
    carry(op, found, call->touches, call->front);
    carry(op, found, &call->touches[TOUCH_MAX - call->back], call->back);
    if (op->count > found)
        op->flags &= (uint8_t)~OP_UNMATCHED;
}
