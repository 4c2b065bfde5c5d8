/* Blocks that the framework told of while nobody looked. Most are taken back before anybody does, and the rest of the
 * ledger, many lines of memory for each, never hears of them. */
#include "base/hot.h"
#include "base/spread.h"
#include "ledger/state.h"

static inline struct pending *place_of(struct ledger *l, addr_t start) {
    enum { ALIGN_SHIFT = 9 }; /* of what frameworks give out */
    return &l->pending[spread(start >> ALIGN_SHIFT) >> (64 - PENDING_BITS)];
}

HOT void ledger_block_foresee(const struct ledger *l, addr_t start, bool later) {
    fetch((uintptr_t)l, offsetof(struct ledger, seen));
    __builtin_prefetch(place_of(open_for_look(l), start));
    if (!later)
        addrmap_foresee(&l->blocks, &start, 1);
}

/* The caller holds the writer's lock. */
static inline void set_aside(struct ledger *l, addr_t start, uint64_t bytes) {
    struct pending *p = place_of(l, start), before = *p;
    *p = (struct pending){start, bytes};
    use_anew(l, start, start + bytes);
    if (__builtin_expect(before.bytes != 0, 0))
        block_enter(l, before.start, before.bytes);
    else
        put(&l->pending_count, get(&l->pending_count) + 1);
}

HOT bool ledger_block_add_later(struct ledger *l, addr_t start, uint64_t bytes) {
    write_begin(&l->lock);
    bool now = l->all_at_once || !valid(start, bytes);
    if (__builtin_expect(!now, 1))
        set_aside(l, start, bytes);
    write_end(&l->lock);
    return !now;
}

HOT bool ledger_block_remove_later(struct ledger *l, addr_t start) {
    write_begin(&l->lock);
    bool now = l->all_at_once;
    if (__builtin_expect(!now, 1))
        block_leave(l, start);
    write_end(&l->lock);
    return !now;
}

void ledger_blocks_at_once(struct ledger *l) {
    write_begin(&l->lock);
    l->all_at_once = true;
    write_end(&l->lock);
}

HOT uint64_t pending_take(struct ledger *l, addr_t start) {
    struct pending *p = place_of(l, start);
    uint64_t bytes = p->start == start ? p->bytes : 0;
    if (bytes) {
        *p = (struct pending){0};
        put(&l->pending_count, get(&l->pending_count) - 1);
    }
    return bytes;
}

SELDOM void pending_enter(struct ledger *l) {
    write_begin(&l->lock);
    for (size_t i = 0; i < 1 << PENDING_BITS && get(&l->pending_count); i++) {
        addr_t start = l->pending[i].start;
        uint64_t bytes = pending_take(l, start);
        if (bytes)
            block_enter(l, start, bytes);
    }
    write_end(&l->lock);
}
