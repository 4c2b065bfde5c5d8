/* The best extent around an address: a block that was told, or what lies between addresses that were observed. */
#include "base/hot.h"
#include "ledger/hint.h"
#include "ledger/state.h"

/* Addresses that are not aligned like data are not noted. */
enum { OBSERVED_ALIGN = 16 };
/* So many in an allocation: parts of a buffer that is cleared as a whole at every step are not observed anew each time.
 */
enum { JOINED_MAX = 256 };

/* What is known around an address. */
struct look {
    bool found, notable; /* notable: the address would become an observed block */
    enum touch_source source;
    uint64_t allocation;
    struct range block;
};

/* p lies in an allocation, but in no block: what is around it ends at the next blocks, or with the allocation. */
static void look_in_gap(struct ledger *l, addr_t p, const struct range *allocation, struct look *out) {
    struct range before, after;
    out->block = *allocation;
    if (addrmap_before(&l->blocks, p, &before) && before.end > allocation->start)
        out->block.start = before.end;
    if (addrmap_after(&l->blocks, p, &after) && after.start < allocation->end)
        out->block.end = after.start;
    bool whole = out->block.start == allocation->start && out->block.end == allocation->end;
    out->source = whole ? SOURCE_ALLOCATION : SOURCE_OBSERVED;
    out->notable = !whole || p != allocation->start;
}

static enum touch_source source_of(const struct range *block) {
    if (block->value & BLOCK_FRAMEWORK)
        return SOURCE_FRAMEWORK;
    return block->value & BLOCK_LIBRARY ? SOURCE_LIBRARY : SOURCE_OBSERVED;
}

static void look(struct ledger *l, addr_t p, bool captured, struct look *out) {
    struct range allocation;
    bool in_block = addrmap_find(&l->blocks, p, &out->block);
    bool told = in_block && out->block.value & BLOCK_TOLD;
    out->found = !in_block || !(out->block.value & BLOCK_FREE);
    out->notable = false;
    if (!out->found)
        return;
    out->source = in_block ? source_of(&out->block) : SOURCE_OBSERVED;
    out->allocation = in_block ? out->block.value >> BLOCK_ID_SHIFT : 0;
    if (out->allocation && told)
        return;
    out->found = addrmap_find(&l->allocations, p, &allocation);
    if (!out->found)
        return;
    const struct record *c = record_of(&allocation);
    out->allocation = get(&c->id);
    if (get(&c->divided) == DIVIDED_BY_GRAPHS && !(told && captured)) {
        out->block = allocation;
        out->source = SOURCE_ALLOCATION;
        return;
    }
    if (told)
        return;
    out->found = get(&c->divided) == UNDIVIDED;
    if (in_block)
        out->notable = out->block.start != p;
    else
        look_in_gap(l, p, &allocation, out);
    out->notable = out->notable && p % OBSERVED_ALIGN == 0 && get(&c->observed) < OBSERVED_MAX;
}

/* p becomes an observed block: it takes the end of what was around it. The caller holds the writer's lock. */
static void note(struct ledger *l, addr_t p, struct look *known) {
    struct range allocation, around = known->block, told;
    bool split = addrmap_find(&l->blocks, p, &told);
    if (!addrmap_find(&l->allocations, p, &allocation) ||
        !addrmap_insert(&l->blocks, &(struct range){p, around.end, known->allocation << BLOCK_ID_SHIFT}))
        return;
    if (split)
        addrmap_set(&l->blocks, &(struct range){around.start, p, told.value});
    count_observed(l, &allocation, 1);
    known->block.start = p;
    known->source = SOURCE_OBSERVED;
}

HOT void ledger_foresee(const struct ledger *l) {
    fetch((uintptr_t)&l->lock.sequence, offsetof(struct ledger, seen) - offsetof(struct ledger, lock.sequence));
}

/* The usual case, in few steps that do not wait for each other: where p was looked up last lies a block that was told.
 */
static inline bool extent_told(const struct ledger *l, addr_t p, enum touch_mode mode, struct touch *out) {
    const struct entry *e = hint_entry(&l->blocks, hint_hash(p), p);
    uint64_t value = e ? get(&e->value) : 0;
    if (!(value & BLOCK_TOLD) || !(value >> BLOCK_ID_SHIFT))
        return false;
    addr_t start = get(&e->start);
    *out = (struct touch){.start = start,
                          .bytes = get(&e->end) - start,
                          .allocation = value >> BLOCK_ID_SHIFT,
                          .mode = (uint8_t)mode,
                          .source = value & BLOCK_FRAMEWORK ? SOURCE_FRAMEWORK : SOURCE_LIBRARY};
    return true;
}

HOT uint32_t ledger_extents_told(struct ledger *l, const addr_t *p, size_t n, enum touch_mode mode, struct touch *out) {
    uint32_t told = 0;
    blocks_needed(l);
    addrmap_foresee(&l->blocks, p, n);
    for (READING(&l->lock)) {
        told = 0;
        for (size_t i = 0; i < n; i++)
            told |= (uint32_t)extent_told(l, p[i], mode, &out[i]) << i;
    }
    return told;
}

static bool extent_best(struct ledger *l, addr_t p, bool captured, struct touch *out) {
    struct look known;
    blocks_needed(l);
    for (READING(&l->lock))
        look(l, p, captured, &known);
    if (known.found && known.notable) {
        write_begin(&l->lock);
        look(l, p, captured, &known);
        if (known.found && known.notable)
            note(l, p, &known);
        write_end(&l->lock);
    }
    if (!known.found)
        return false;
    out->start = known.block.start;
    out->bytes = known.block.end - known.block.start;
    out->allocation = known.allocation;
    out->source = (uint8_t)known.source;
    return true;
}

bool ledger_extent(struct ledger *l, addr_t p, struct touch *out) {
    return extent_best(l, p, false, out);
}

bool ledger_extent_captured(struct ledger *l, addr_t p, struct touch *out) {
    return extent_best(l, p, true, out);
}

/* The first block that nobody told, its start was observed, behind p and before end in an allocation that has not
 * joined too many. */
static bool find_observed(struct ledger *l, addr_t p, addr_t end, const struct range *allocation, struct range *out) {
    const struct record *c = record_of(allocation);
    if (get(&c->observed) == 0 || get(&c->joined) >= JOINED_MAX)
        return false;
    for (addr_t at = p + 1; addrmap_after(&l->blocks, at, out) && out->start < end && out->start < allocation->end;
         at = out->start + 1)
        if (!(out->value & (BLOCK_TOLD | BLOCK_FREE)))
            return true;
    return false;
}

/* The block's memory falls to what lies before it. The caller holds the writer's lock. */
static void join(struct ledger *l, const struct range *r, const struct range *allocation) {
    struct range before;
    bool follows = addrmap_before(&l->blocks, r->start - 1, &before) && before.end == r->start;
    addrmap_erase(&l->blocks, r->start, r->start + 1);
    if (follows && before.value == r->value)
        addrmap_set(&l->blocks, &(struct range){before.start, r->end, before.value});
    count_observed(l, allocation, -(uint64_t)1);
    word *joined = &record_of(allocation)->joined;
    put(joined, get(joined) + 1);
}

static SELDOM void join_inside(struct ledger *l, addr_t start, addr_t end) {
    struct range r = {.start = start}, allocation;
    write_begin(&l->lock);
    if (addrmap_find(&l->allocations, start, &allocation))
        while (find_observed(l, r.start, end, &allocation, &r))
            join(l, &r, &allocation);
    write_end(&l->lock);
}

HOT void ledger_unsplit(struct ledger *l, addr_t start, uint64_t bytes) {
    struct range r, allocation;
    bool any = false;
    if (!valid(start, bytes))
        return;
    for (READING(&l->lock))
        any = addrmap_find(&l->allocations, start, &allocation) &&
              find_observed(l, start, start + bytes, &allocation, &r);
    if (any)
        join_inside(l, start, start + bytes);
}
