/* Blocks: what the framework told, what was observed, and the best extent around an address. */
#include "base/hot.h"
#include "ledger/state.h"

/* A pointer is noted as observed when it is aligned like data, and while its allocation has few of them: a kernel that
 * is handed a new address at every launch must not fill the ledger. */
enum { OBSERVED_ALIGN = 16, OBSERVED_MAX = 4096 };

/* What is known around an address. */
struct look {
    bool found, notable; /* notable: the address would become an observed block */
    enum touch_source source;
    uint64_t allocation;
    struct range block;
};

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
        blocks = get(&l->blocks.count) - get(&l->observed) - get(&l->free);
    return blocks;
}

/* Makes room for a new block. The caller holds the writer's lock. */
static SELDOM void replace(struct ledger *l, addr_t start, addr_t end) {
    struct range r, allocation;
    for (addr_t at = start; addrmap_after(&l->blocks, at, &r) && r.start < end; at = r.end)
        if (is_observed(r.value) && addrmap_find(&l->allocations, r.start, &allocation)) {
            word *observed = &record_of(&allocation)->observed;
            put(observed, get(observed) - 1);
            put(&l->observed, get(&l->observed) - 1);
        }
    blocks_forget(l, start, end);
}

static void divide(struct ledger *l, addr_t start, addr_t end) {
    struct range r;
    for (addr_t at = start; at < end && addrmap_find(&l->allocations, at, &r); at = r.end)
        put(&record_of(&r)->divided, 1);
}

HOT void ledger_block_foresee(const struct ledger *l, addr_t start) {
    fetch((uintptr_t)l, offsetof(struct ledger, seen));
    addrmap_foresee(&l->blocks, &start, 1);
}

/* The usual case: the range was a block before. The caller holds the writer's lock. */
static HOT bool give_out_again(struct ledger *l, const struct range *block) {
    struct range r;
    bool same = addrmap_find(&l->blocks, block->start, &r) && r.value & BLOCK_FREE && r.start == block->start &&
                r.end == block->end;
    if (!same)
        return false;
    r.value ^= BLOCK_FREE | BLOCK_FRAMEWORK;
    addrmap_set(&l->blocks, &r);
    put(&l->free, get(&l->free) - 1);
    return true;
}

/* The caller holds the writer's lock. */
static SELDOM void enter(struct ledger *l, struct range *block) {
    struct range allocation;
    if (!addrmap_fits(&l->blocks, block))
        replace(l, block->start, block->end);
    bool inside = addrmap_find(&l->allocations, block->start, &allocation) && block->end <= allocation.end;
    uint64_t id = inside ? get(&record_of(&allocation)->id) : 0;
    block->value = id << BLOCK_ID_SHIFT | BLOCK_FRAMEWORK;
    addrmap_insert(&l->blocks, block);
    divide(l, block->start, block->end);
}

HOT void ledger_block_add(struct ledger *l, addr_t start, uint64_t bytes) {
    struct range block = {.start = start, .end = start + bytes};
    if (!valid(start, bytes))
        return;
    write_begin(&l->lock);
    if (!give_out_again(l, &block))
        enter(l, &block);
    write_end(&l->lock);
}

HOT bool ledger_block_remove(struct ledger *l, addr_t start) {
    struct range r;
    write_begin(&l->lock);
    bool found = addrmap_find(&l->blocks, start, &r) && r.start == start && r.value & BLOCK_FRAMEWORK;
    if (found && r.value >> BLOCK_ID_SHIFT) {
        r.value ^= BLOCK_FREE | BLOCK_FRAMEWORK;
        addrmap_set(&l->blocks, &r);
        put(&l->free, get(&l->free) + 1);
    } else if (found) {
        addrmap_erase(&l->blocks, start, start + 1);
    }
    write_end(&l->lock);
    return found;
}

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

static void look(struct ledger *l, addr_t p, struct look *out) {
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
    if (told)
        return;
    out->found = !get(&c->divided);
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
    word *observed = &record_of(&allocation)->observed;
    put(observed, get(observed) + 1);
    put(&l->observed, get(&l->observed) + 1);
    known->block.start = p;
    known->source = SOURCE_OBSERVED;
}

HOT void ledger_foresee(const struct ledger *l, const addr_t *p, size_t n) {
    fetch((uintptr_t)&l->lock.sequence, offsetof(struct ledger, seen) - offsetof(struct ledger, lock.sequence));
    addrmap_foresee(&l->blocks, p, n);
}

/* The usual case, in few steps: p lies in a block that was told. */
static HOT bool extent_told(struct ledger *l, addr_t p, struct touch *out) {
    struct range r;
    bool told = false;
    for (READING(&l->lock))
        told = addrmap_find(&l->blocks, p, &r) && r.value & BLOCK_TOLD && r.value >> BLOCK_ID_SHIFT;
    if (!told)
        return false;
    out->start = r.start;
    out->bytes = r.end - r.start;
    out->allocation = r.value >> BLOCK_ID_SHIFT;
    out->source = (uint8_t)source_of(&r);
    return true;
}

static SELDOM bool extent_best(struct ledger *l, addr_t p, struct touch *out) {
    struct look known;
    for (READING(&l->lock))
        look(l, p, &known);
    if (known.found && known.notable) {
        write_begin(&l->lock);
        look(l, p, &known);
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

HOT bool ledger_extent(struct ledger *l, addr_t p, struct touch *out) {
    return extent_told(l, p, out) || extent_best(l, p, out);
}

/* As what a library tells of an extent that starts in the block and goes on to end. */
static bool is_as_good(const struct range *block, addr_t end) {
    return block->value & BLOCK_FRAMEWORK || (block->value & BLOCK_LIBRARY && end <= block->end);
}

/* What a library tells of [start, end): the allocation that holds start, and whether nothing as good is known yet. */
static bool look_told(struct ledger *l, addr_t start, addr_t end, uint64_t *id) {
    struct range r, allocation;
    *id = 0;
    bool known = addrmap_find(&l->blocks, start, &r) && is_as_good(&r, end);
    if (known && (*id = r.value >> BLOCK_ID_SHIFT))
        return false;
    if (!addrmap_find(&l->allocations, start, &allocation))
        return false;
    *id = get(&record_of(&allocation)->id);
    if (known || end > allocation.end || get(&record_of(&allocation)->observed) >= OBSERVED_MAX)
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
    word *observed = &record_of(&allocation)->observed;
    put(observed, get(observed) + 1);
    put(&l->observed, get(&l->observed) + 1);
}

/* The usual case, in few steps: the allocation of a block that is already known at least as well; 0: none is. */
static HOT uint64_t block_as_good(struct ledger *l, addr_t start, addr_t end) {
    struct range r;
    bool known = false;
    for (READING(&l->lock))
        known = addrmap_find(&l->blocks, start, &r) && is_as_good(&r, end);
    return known ? r.value >> BLOCK_ID_SHIFT : 0;
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

HOT uint64_t ledger_block_tell(struct ledger *l, addr_t start, uint64_t bytes) {
    uint64_t id = block_as_good(l, start, start + bytes);
    return id ? id : tell_news(l, start, bytes);
}
