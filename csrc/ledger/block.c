/* Blocks that the framework or a library told. */
#include "base/hot.h"
#include "ledger/hint.h"
#include "ledger/state.h"

void blocks_forget(struct ledger *l, addr_t start, addr_t end) {
    struct range r;
    bool reaches = addrmap_before(&l->blocks, start, &r) && r.end > start;
    for (bool any = reaches || addrmap_after(&l->blocks, start, &r); any && r.start < end;
         any = addrmap_after(&l->blocks, r.start + 1, &r))
        if (r.value & BLOCK_FREE)
            put(&l->free, get(&l->free) - 1);
    if (addrmap_before(&l->blocks, start, &r) && r.start < start && r.end > start) {
        if (!is_observed(r.value))
            addrmap_erase(&l->blocks, r.start, r.start + 1);
        else
            addrmap_set(&l->blocks, &(struct range){r.start, start, r.value});
    }
    addrmap_erase(&l->blocks, start, end);
}

uint64_t ledger_blocks(const struct ledger *shared) {
    struct ledger *l = open_for_look(shared);
    uint64_t blocks = 0;
    for (READING(&l->lock))
        blocks = get(&l->blocks.count) - get(&l->observed) - get(&l->free) + get(&l->pending_count);
    return blocks;
}

static struct touch touch_of(const struct range *r) {
    return (struct touch){.start = r->start,
                          .bytes = r->end - r->start,
                          .allocation = r->value >> BLOCK_ID_SHIFT,
                          .source = SOURCE_FRAMEWORK};
}

size_t ledger_list_blocks(const struct ledger *shared, addr_t from, struct touch *out, size_t n) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    size_t count = 0;
    blocks_needed(l);
    for (READING(&l->lock)) {
        addr_t at = from;
        for (count = 0; count < n && addrmap_after(&l->blocks, at, &r); at = r.start + 1)
            if (r.value & BLOCK_FRAMEWORK)
                out[count++] = touch_of(&r);
    }
    return count;
}

bool ledger_last_block(const struct ledger *shared, addr_t from, addr_t end, struct touch *out) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    bool found = false;
    blocks_needed(l);
    for (READING(&l->lock)) {
        found = false;
        for (addr_t at = end; !found && at > from && addrmap_before(&l->blocks, at - 1, &r) && r.start >= from;
             at = r.start)
            found = r.value & BLOCK_FRAMEWORK;
    }
    if (found)
        *out = touch_of(&r);
    return found;
}

/* Makes room for a new block. The caller holds the writer's lock. */
static SELDOM void replace(struct ledger *l, addr_t start, addr_t end) {
    struct range r, allocation;
    for (addr_t at = start; addrmap_after(&l->blocks, at, &r) && r.start < end; at = r.end)
        if (is_observed(r.value) && addrmap_find(&l->allocations, r.start, &allocation))
            count_observed(l, &allocation, -(uint64_t)1);
    blocks_forget(l, start, end);
}

static void divide(struct ledger *l, addr_t start, addr_t end) {
    struct range r;
    for (addr_t at = start; at < end && addrmap_find(&l->allocations, at, &r); at = r.end)
        if (get(&record_of(&r)->divided) == UNDIVIDED)
            put(&record_of(&r)->divided, DIVIDED);
}

/* The caller holds the writer's lock. */
static inline void change_hands(struct ledger *l, struct entry *e, uint64_t freed) {
    put(&e->value, get(&e->value) ^ (BLOCK_FREE | BLOCK_FRAMEWORK));
    put(&l->free, get(&l->free) + freed);
}

/* The usual case: the range was a block before, or begins one. The caller holds the writer's lock. */
static HOT bool give_out_again(struct ledger *l, const struct range *block) {
    struct entry *e = hint_entry(&l->blocks, hint_hash(block->start), block->start);
    bool fits = e && get(&e->value) & BLOCK_FREE && get(&e->start) == block->start && get(&e->end) >= block->end;
    if (fits) {
        put(&e->end, block->end);
        change_hands(l, e, -(uint64_t)1);
    }
    return fits;
}

/* The caller holds the writer's lock. */
static void put_in(struct ledger *l, const struct range *block) {
    uint64_t gone;
    if (addrmap_replace(&l->blocks, block, BLOCK_FREE, &gone)) {
        put(&l->free, get(&l->free) - gone);
        return;
    }
    if (!addrmap_fits(&l->blocks, block))
        replace(l, block->start, block->end);
    addrmap_insert(&l->blocks, block);
}

/* The caller holds the writer's lock. */
static SELDOM void enter(struct ledger *l, struct range *block) {
    struct range allocation;
    bool inside = addrmap_find(&l->allocations, block->start, &allocation) && block->end <= allocation.end;
    bool sure = inside && get(&record_of(&allocation)->divided) != DIVIDED_BY_GRAPHS;
    uint64_t id = sure ? get(&record_of(&allocation)->id) : 0;
    block->value = id << BLOCK_ID_SHIFT | BLOCK_FRAMEWORK;
    put_in(l, block);
    divide(l, block->start, block->end);
}

HOT void block_enter(struct ledger *l, addr_t start, uint64_t bytes) {
    struct range block = {.start = start, .end = start + bytes};
    if (!give_out_again(l, &block))
        enter(l, &block);
}

HOT void ledger_block_add(struct ledger *l, addr_t start, uint64_t bytes) {
    if (!valid(start, bytes))
        return;
    write_begin(&l->lock);
    use_anew(l, start, start + bytes);
    block_enter(l, start, bytes);
    write_end(&l->lock);
}

/* Only what the framework has given out stays, without an id. The caller holds the writer's lock. */
static void unsettle(struct ledger *l, const struct range *allocation) {
    struct range r;
    for (addr_t at = allocation->start; addrmap_after(&l->blocks, at, &r) && r.start < allocation->end; at = r.end) {
        if (r.value & BLOCK_FRAMEWORK) {
            addrmap_set(&l->blocks, &(struct range){r.start, r.end, BLOCK_FRAMEWORK});
            continue;
        }
        if (is_observed(r.value))
            count_observed(l, allocation, -(uint64_t)1);
        else
            put(&l->free, get(&l->free) - 1);
        addrmap_erase(&l->blocks, r.start, r.start + 1);
    }
    put(&record_of(allocation)->divided, DIVIDED_BY_GRAPHS);
}

void ledger_block_captured(struct ledger *l, addr_t start, uint64_t bytes) {
    struct range r;
    if (!valid(start, bytes))
        return;
    blocks_needed(l);
    write_begin(&l->lock);
    for (addr_t at = start; at < start + bytes && addrmap_find(&l->allocations, at, &r); at = r.end)
        if (get(&record_of(&r)->divided) != DIVIDED_BY_GRAPHS)
            unsettle(l, &r);
    use_anew(l, start, start + bytes);
    block_enter(l, start, bytes);
    write_end(&l->lock);
}

bool ledger_is_captured(const struct ledger *shared, addr_t p) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    bool found = false;
    for (READING(&l->lock))
        found = addrmap_find(&l->allocations, p, &r) && get(&record_of(&r)->divided) == DIVIDED_BY_GRAPHS;
    return found;
}

HOT bool block_leave(struct ledger *l, addr_t start) {
    struct entry *e = addrmap_entry(&l->blocks, start);
    bool found = e && get(&e->start) == start && get(&e->value) & BLOCK_FRAMEWORK;
    if (found)
        use_anew(l, start, get(&e->end));
    if (found && get(&e->value) >> BLOCK_ID_SHIFT)
        change_hands(l, e, 1);
    else if (found)
        addrmap_erase(&l->blocks, start, start + 1);
    return found;
}

HOT bool ledger_block_remove(struct ledger *l, addr_t start) {
    bool found = __builtin_expect(get(&l->pending_count) != 0, 0) && pending_remove(l, start);
    if (found)
        return true;
    write_begin(&l->lock);
    found = block_leave(l, start);
    write_end(&l->lock);
    return found;
}

/* As what a library tells of an extent that starts in the block and goes on to end. value, block_end: the block's. */
static inline bool is_as_good(uint64_t value, addr_t block_end, addr_t end) {
    return value & BLOCK_FRAMEWORK || (value & BLOCK_LIBRARY && end <= block_end);
}

/* What a library tells of [start, end): the allocation that holds start, and whether nothing as good is known yet. */
static bool look_told(struct ledger *l, addr_t start, addr_t end, uint64_t *id) {
    struct range r, allocation;
    *id = 0;
    bool known = addrmap_find(&l->blocks, start, &r) && is_as_good(r.value, r.end, end);
    if (known && (*id = r.value >> BLOCK_ID_SHIFT))
        return false;
    if (!addrmap_find(&l->allocations, start, &allocation))
        return false;
    *id = get(&record_of(&allocation)->id);
    if (known || end > allocation.end || get(&record_of(&allocation)->observed) >= OBSERVED_MAX ||
        get(&record_of(&allocation)->divided) == DIVIDED_BY_GRAPHS)
        return false;
    return !(addrmap_after(&l->blocks, start, &r) && r.start < end && r.value & BLOCK_FRAMEWORK);
}

/* The caller holds the writer's lock. */
static void tell(struct ledger *l, addr_t start, addr_t end, uint64_t id) {
    struct range r, allocation;
    for (addr_t at = start; addrmap_after(&l->blocks, at, &r) && r.start < end; at = r.end)
        if (r.value & BLOCK_FRAMEWORK)
            return;
    replace(l, start, end);
    if (!addrmap_insert(&l->blocks, &(struct range){start, end, id << BLOCK_ID_SHIFT | BLOCK_LIBRARY}) ||
        !addrmap_find(&l->allocations, start, &allocation))
        return;
    count_observed(l, &allocation, 1);
}

/* The usual case, in few steps that do not wait for each other: the allocation of a block, where start was looked up
 * last, that is known at least as well; 0: none is. */
static inline uint64_t block_as_good(const struct ledger *l, addr_t start, addr_t end) {
    const struct entry *e = hint_entry(&l->blocks, hint_hash(start), start);
    uint64_t value = e ? get(&e->value) : 0;
    return e && is_as_good(value, get(&e->end), end) ? value >> BLOCK_ID_SHIFT : 0;
}

static SELDOM uint64_t tell_news(struct ledger *l, addr_t start, uint64_t bytes) {
    uint64_t id = 0;
    bool news = false;
    if (!valid(start, bytes))
        return 0;
    for (READING(&l->lock))
        news = look_told(l, start, start + bytes, &id);
    if (news) {
        write_begin(&l->lock);
        if (look_told(l, start, start + bytes, &id))
            tell(l, start, start + bytes, id);
        write_end(&l->lock);
    }
    return id;
}

uint64_t ledger_block_tell(struct ledger *l, addr_t start, uint64_t bytes) {
    uint64_t id = 0;
    blocks_needed(l);
    for (READING(&l->lock))
        id = block_as_good(l, start, start + bytes);
    return id ? id : tell_news(l, start, bytes);
}

enum { TOLD_AT_ONCE = 32 };

static HOT_CALL void find_good(struct ledger *l, const struct touch *t, size_t n, uint64_t id[TOLD_AT_ONCE]) {
    for (READING(&l->lock))
        for (size_t i = 0; i < n; i++)
            id[i] = block_as_good(l, t[i].start, t[i].start + t[i].bytes);
}

HOT_CALL size_t ledger_blocks_tell(struct ledger *l, struct touch *touches, size_t n) {
    uint64_t id[TOLD_AT_ONCE];
    struct touch *kept = touches;
    blocks_needed(l);
    for (struct touch *t = touches, *end = t + n; t < end; t++) {
        size_t i = (size_t)(t - touches) % TOLD_AT_ONCE;
        if (i == 0)
            find_good(l, t, end - t < TOLD_AT_ONCE ? (size_t)(end - t) : TOLD_AT_ONCE, id);
        if (!t->allocation)
            t->allocation = __builtin_expect(id[i] != 0, 1) ? id[i] : tell_news(l, t->start, t->bytes);
        if (__builtin_expect(t != kept, 0))
            *kept = *t;
        kept += t->allocation != 0;
    }
    return (size_t)(kept - touches);
}
