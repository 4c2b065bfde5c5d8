/* The checker of the whole ledger. */
#include "base/invariant.h"

#include "base/page.h"
#include "ledger/state.h"

static unsigned long long number(uint64_t n) {
    return n;
}

static void check_allocations(struct ledger *l) {
    uint64_t observed = 0, pages = 0, charged[DEVICE_MAX] = {0}, plain[DEVICE_MAX] = {0};
    struct range r, other;
    for (addr_t at = 0; addrmap_after(&l->allocations, at, &r); at = r.end) {
        struct allocation a = allocation_of(&r);
        INVARIANT(a.id > 0 && a.id <= l->last_id, "allocation %llu of %llu", number(a.id), number(l->last_id));
        INVARIANT(a.kind < MEMORY_KINDS, "allocation %llu is of kind %u", number(a.id), a.kind);
        INVARIANT(r.start >= get(&l->lowest) && ledger_may_hold(l, r.start) && ledger_may_hold(l, r.end - 1),
                  "allocation %llu", number(a.id));
        uint64_t inside = 0;
        for (addr_t b = r.start; addrmap_after(&l->blocks, b, &other) && other.start < r.end; b = other.end) {
            INVARIANT(!(other.value & BLOCK_FREE) || get(&record_of(&r)->divided), "free range 0x%llx",
                      number(other.start));
            if (!is_observed(other.value))
                continue;
            INVARIANT(other.value >> BLOCK_ID_SHIFT == a.id && other.end <= r.end,
                      "observed block 0x%llx of allocation %llu", number(other.start), number(a.id));
            inside++;
        }
        INVARIANT(inside == get(&record_of(&r)->observed), "allocation %llu has %llu observed blocks", number(a.id),
                  number(inside));
        observed += inside;
        pages += a.managed ? whole_pages(a.charged) : 0;
        if (a.device >= 0 && a.device < DEVICE_MAX) {
            charged[a.device] += a.charged;
            plain[a.device] += a.managed ? 0 : a.charged;
        }
    }
    INVARIANT(observed == get(&l->observed), "%llu observed blocks, counted %llu", number(observed),
              number(get(&l->observed)));
    INVARIANT(pages <= get(&l->quota.managed), "allocations hold %llu bytes of managed pages", number(pages));
    for (int d = 0; d < DEVICE_MAX; d++) {
        INVARIANT(charged[d] <= ledger_used(l, d), "device %d: allocations hold %llu bytes", d, number(charged[d]));
        INVARIANT(plain[d] <= ledger_plain(l, d), "device %d: allocations hold %llu plain bytes", d, number(plain[d]));
    }
}

static void check_blocks(struct ledger *l) {
    uint64_t observed = 0, free = 0;
    struct range r, allocation;
    for (addr_t at = 0; addrmap_after(&l->blocks, at, &r); at = r.end) {
        observed += is_observed(r.value);
        free += (r.value & BLOCK_FREE) != 0;
        if (r.value >> BLOCK_ID_SHIFT == 0) {
            INVARIANT(r.value & BLOCK_FRAMEWORK, "observed block 0x%llx of no allocation", number(r.start));
            continue;
        }
        INVARIANT(addrmap_find(&l->allocations, r.start, &allocation) && r.end <= allocation.end &&
                      get(&record_of(&allocation)->id) == r.value >> BLOCK_ID_SHIFT,
                  "block 0x%llx of allocation %llu", number(r.start), number(r.value >> BLOCK_ID_SHIFT));
    }
    INVARIANT(free == get(&l->free), "%llu free ranges, counted %llu", number(free), number(get(&l->free)));
    INVARIANT(observed == get(&l->observed), "%llu observed blocks, counted %llu", number(observed),
              number(get(&l->observed)));
}

static void check_tables(struct ledger *l) {
    struct range r;
    addr_t low = get(&l->table_low), high = get(&l->table_high);
    tables_check(&l->tables);
    INVARIANT((high != 0) == (get(&l->tables.ranges.count) != 0), "tables up to 0x%llx", number(high));
    for (addr_t at = 0; addrmap_after(&l->tables.ranges, at, &r); at = r.end)
        INVARIANT(r.start >= low && r.end <= high, "table 0x%llx is out of bounds", number(r.start));
}

static void check_pending(struct ledger *l) {
    uint64_t pending = 0;
    for (size_t i = 0; i < 1 << PENDING_BITS; i++)
        for (int way = 0; way < PENDING_WAYS; way++)
            pending += l->pending[i].way[way].bytes != 0;
    INVARIANT(pending == get(&l->pending_count), "%llu pending blocks, counted %llu", number(pending),
              number(get(&l->pending_count)));
}

void ledger_check(struct ledger *l) {
    pending_begin(l);
    lock_take(&l->lock.mutex);
    addrmap_check(&l->allocations);
    addrmap_check(&l->blocks);
    check_allocations(l);
    check_blocks(l);
    check_tables(l);
    check_pending(l);
    lock_drop(&l->lock.mutex);
    pending_end(l);
}
