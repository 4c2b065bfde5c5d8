/* Blocks that the framework told of while nobody looked. Most are taken back before anybody does, and the rest of the
 * ledger, many lines of memory for each, never hears of them. */
#include "base/hot.h"
#include "base/spread.h"
#include "base/thread.h"
#include "ledger/state.h"

static inline struct pending *ways_of(const struct ledger *l, addr_t start) {
    enum { ALIGN_SHIFT = 9 }; /* of what frameworks give out */
    return open_for_look(l)->pending[spread(start >> ALIGN_SHIFT) >> (64 - PENDING_BITS)].way;
}

HOT void ledger_pending_foresee(const struct ledger *l, addr_t start) {
    fetch((uintptr_t)&l->pending_busy, sizeof l->pending_busy);
    fetch((uintptr_t)ways_of(l, start), sizeof(struct pending_line));
}

HOT void ledger_block_foresee(const struct ledger *l, addr_t start) {
    fetch((uintptr_t)l, offsetof(struct ledger, seen));
    addrmap_foresee(&l->blocks, &start, 1);
}

SELDOM void pending_wait(struct ledger *l) {
    for (int tries = 0; atomic_exchange_explicit(&l->pending_busy, true, memory_order_acquire); tries++)
        thread_give_way(tries);
}

static SELDOM void enter(struct ledger *l, struct pending p) {
    write_begin(&l->lock);
    block_enter(l, p.start, p.bytes);
    write_end(&l->lock);
}

static SELDOM void leave(struct ledger *l, addr_t start) {
    write_begin(&l->lock);
    block_leave(l, start);
    write_end(&l->lock);
}

static SELDOM void forget_tables(struct ledger *l, addr_t start, addr_t end) {
    write_begin(&l->lock);
    tables_gone(l, start, end);
    write_end(&l->lock);
}

/* [start, start + bytes) changes hands. */
static inline void hand_over(struct ledger *l, addr_t start, uint64_t bytes) {
    if (__builtin_expect(may_have_tables(l, start, start + bytes), 0))
        forget_tables(l, start, start + bytes);
}

/* The oldest of a full line goes into the ledger. */
static inline void set_aside(struct ledger *l, addr_t start, uint64_t bytes) {
    struct pending *way = ways_of(l, start), next = {start, bytes};
    for (int i = 0; i < PENDING_WAYS && next.bytes; i++) {
        struct pending older = way[i];
        way[i] = next;
        next = older;
    }
    hand_over(l, start, bytes);
    if (__builtin_expect(next.bytes != 0, 0))
        enter(l, next);
    else
        put(&l->pending_count, get(&l->pending_count) + 1);
}

HOT bool ledger_block_add_later(struct ledger *l, addr_t start, uint64_t bytes) {
    pending_begin(l);
    bool now = l->all_at_once || !valid(start, bytes);
    if (__builtin_expect(!now, 1))
        set_aside(l, start, bytes);
    pending_end(l);
    return !now;
}

/* Of the pending block that starts there, which is pending no more; 0: none does. The caller holds the lock. */
static inline uint64_t pending_take(struct ledger *l, addr_t start) {
    struct pending *way = ways_of(l, start);
    for (int i = 0; i < PENDING_WAYS; i++) {
        uint64_t bytes = way[i].bytes;
        if (way[i].start != start || !bytes)
            continue;
        way[i] = (struct pending){0};
        put(&l->pending_count, get(&l->pending_count) - 1);
        return bytes;
    }
    return 0;
}

static inline bool take_out(struct ledger *l, addr_t start) {
    uint64_t bytes = pending_take(l, start);
    if (bytes)
        hand_over(l, start, bytes);
    return bytes;
}

HOT bool ledger_block_remove_later(struct ledger *l, addr_t start) {
    pending_begin(l);
    bool now = l->all_at_once;
    if (__builtin_expect(!now, 1) && !take_out(l, start))
        leave(l, start);
    pending_end(l);
    return !now;
}

bool pending_remove(struct ledger *l, addr_t start) {
    pending_begin(l);
    bool found = take_out(l, start);
    pending_end(l);
    return found;
}

void ledger_blocks_at_once(struct ledger *l) {
    pending_begin(l);
    l->all_at_once = true;
    pending_end(l);
}

static inline void enter_line(struct ledger *l, struct pending_line *line) {
    for (int i = PENDING_WAYS - 1; i >= 0; i--) { /* a block replaces an older one that it overlaps */
        struct pending p = line->way[i];
        line->way[i] = (struct pending){0};
        if (!p.bytes)
            continue;
        put(&l->pending_count, get(&l->pending_count) - 1);
        block_enter(l, p.start, p.bytes);
    }
}

SELDOM void pending_enter(struct ledger *l) {
    pending_begin(l);
    write_begin(&l->lock);
    for (size_t i = 0; i < 1 << PENDING_BITS && get(&l->pending_count); i++)
        enter_line(l, &l->pending[i]);
    write_end(&l->lock);
    pending_end(l);
}
