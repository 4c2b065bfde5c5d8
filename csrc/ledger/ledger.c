#include "ledger/state.h"

#include <string.h>

#include "base/hot.h"

/* One huge page for all that look-ups read, the first blocks and allocations included: one entry of the processor's
 * address cache. */
enum { LINE = 64, LEDGER_BYTES = 2 << 20, FEW_BYTES = 64 << 10 };

struct page {
    _Alignas(LINE) struct ledger ledger;
    _Alignas(LINE) char allocations[FEW_BYTES], records[FEW_BYTES];
    char blocks[];
};

_Static_assert(sizeof(struct page) <= LEDGER_BYTES / 8 * 5, "no room for blocks");

struct ledger *ledger_new(void) {
    struct page *page = pages_new(LEDGER_BYTES);
    if (!page)
        return NULL;
    struct ledger *l = &page->ledger;
    addrmap_lend(&l->blocks, page->blocks, LEDGER_BYTES - sizeof *page);
    addrmap_lend(&l->allocations, page->allocations, sizeof page->allocations);
    pool_lend(&l->records, page->records, sizeof page->records, sizeof(struct record));
    return l;
}

static void clear(struct ledger *l) {
    addrmap_clear(&l->allocations);
    addrmap_clear(&l->blocks);
    tables_clear(&l->tables);
    pool_clear(&l->records);
    quota_clear(&l->quota);
    put(&l->observed, 0);
    put(&l->free, 0);
    put(&l->lowest, 0);
    put(&l->highest, 0);
    put(&l->table_low, 0);
    put(&l->table_high, 0);
    put(&l->pending_count, 0);
    l->all_at_once = false;
    memset(l->pending, 0, sizeof l->pending);
    for (size_t i = 0; i < SEEN_BITS / 64; i++)
        put(&l->seen[i], 0);
    l->last_id = 0;
}

void ledger_delete(struct ledger *l) {
    if (!l)
        return;
    clear(l);
    pages_delete(l, LEDGER_BYTES);
}

/* --- allocations --- */

bool ledger_may_hold(const struct ledger *l, addr_t p) {
    uint64_t bit = p >> SEEN_SHIFT;
    return p < get(&l->highest) && get(&l->seen[bit / 64 % (SEEN_BITS / 64)]) >> bit % 64 & 1;
}

static void see(struct ledger *l, addr_t start, addr_t end) {
    uint64_t last = (end - 1) >> SEEN_SHIFT;
    for (uint64_t bit = start >> SEEN_SHIFT, n = 0; bit <= last && n < SEEN_BITS; bit++, n++) {
        word *bits = &l->seen[bit / 64 % (SEEN_BITS / 64)];
        put(bits, get(bits) | 1ull << bit % 64);
    }
    if (end > get(&l->highest))
        put(&l->highest, end);
    if (start < get(&l->lowest) || get(&l->lowest) == 0)
        put(&l->lowest, start);
}

HOT void ledger_bounds(const struct ledger *l, addr_t *low, addr_t *high) {
    *low = get(&l->lowest);
    *high = get(&l->highest);
}

static bool overlaps(const struct addrmap *m, addr_t start, addr_t end) {
    struct range r;
    return addrmap_before(m, end - 1, &r) && r.end > start;
}

/* The caller holds the writer's lock. */
static bool allocation_enter(struct ledger *l, const struct allocation *a) {
    if (!valid(a->start, a->bytes) || overlaps(&l->allocations, a->start, a->start + a->bytes))
        return false;
    struct record *c = pool_take(&l->records, sizeof *c);
    if (!c)
        return false;
    if (!addrmap_insert(&l->allocations, &(struct range){a->start, a->start + a->bytes, (uintptr_t)c})) {
        pool_give(&l->records, c);
        return false;
    }
    put(&c->id, a->id);
    put(&c->charged, a->charged);
    put(&c->context, a->context);
    put(&c->where, (uint64_t)(uint32_t)a->device << 32 | (uint64_t)a->kind << 1 | a->managed);
    put(&c->observed, 0);
    put(&c->divided, UNDIVIDED);
    put(&c->joined, 0);
    see(l, a->start, a->start + a->bytes);
    return true;
}

uint64_t ledger_add(struct ledger *l, struct allocation *a) {
    write_begin(&l->lock);
    a->id = l->last_id + 1;
    if (allocation_enter(l, a))
        l->last_id++;
    else
        a->id = 0;
    write_end(&l->lock);
    return a->id;
}

void ledger_restore(struct ledger *l, const struct allocation *a) {
    write_begin(&l->lock);
    bool entered = allocation_enter(l, a);
    if (entered && a->managed)
        ledger_commit_managed(l, a->device, a->charged);
    write_end(&l->lock);
}

bool ledger_remove(struct ledger *l, addr_t start, struct allocation *gone) {
    struct range r;
    struct allocation a;
    blocks_needed(l);
    write_begin(&l->lock);
    bool found = addrmap_before(&l->allocations, start, &r) && r.start == start;
    if (found) {
        a = allocation_of(&r);
        put(&l->observed, get(&l->observed) - get(&record_of(&r)->observed));
        blocks_forget(l, r.start, r.end);
        tables_gone(l, r.start, r.end);
        addrmap_erase(&l->allocations, start, start + 1);
        pool_give(&l->records, record_of(&r));
        if (a.managed)
            ledger_credit_managed(l, a.device, a.charged);
        if (gone)
            *gone = a;
    }
    write_end(&l->lock);
    return found;
}

bool ledger_find(const struct ledger *shared, addr_t p, struct allocation *out) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    bool found = false;
    for (READING(&l->lock)) {
        found = addrmap_find(&l->allocations, p, &r);
        if (found)
            *out = allocation_of(&r);
    }
    return found;
}

bool ledger_is_host_written(const struct ledger *l, addr_t p) {
    struct allocation a;
    return ledger_find(l, p, &a) && (a.kind == MEMORY_HOST || a.kind == MEMORY_MANAGED);
}

bool ledger_find_before(const struct ledger *shared, addr_t p, struct allocation *out) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    bool found = false;
    for (READING(&l->lock)) {
        found = addrmap_before(&l->allocations, p, &r);
        if (found)
            *out = allocation_of(&r);
    }
    return found;
}

HOT bool ledger_holds(const struct ledger *shared, addr_t start, uint64_t bytes) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    bool held = false;
    for (READING(&l->lock))
        held = addrmap_find(&l->allocations, start, &r) && bytes <= r.end - start;
    return held;
}

uint64_t ledger_allocations(const struct ledger *l) {
    return get(&l->allocations.count);
}

size_t ledger_list(const struct ledger *shared, addr_t from, struct allocation *out, size_t n) {
    struct ledger *l = open_for_look(shared);
    struct range r;
    size_t count = 0;
    for (READING(&l->lock)) {
        addr_t at = from;
        for (count = 0; count < n && addrmap_after(&l->allocations, at, &r); at = r.end)
            out[count++] = allocation_of(&r);
    }
    return count;
}

/* --- pointer tables --- */

void tables_gone(struct ledger *l, addr_t start, addr_t end) {
    tables_forget(&l->tables, start, end);
    if (get(&l->tables.ranges.count) == 0)
        put(&l->table_high, 0);
}

/* The caller holds the writer's lock. */
static void bound_tables(struct ledger *l, addr_t start, addr_t end) {
    addr_t low = get(&l->table_low), high = get(&l->table_high);
    bool any = get(&l->tables.ranges.count) > 0;
    if (high == 0 || start < low)
        put(&l->table_low, start);
    if (!any || end > high)
        put(&l->table_high, any ? end : 0);
}

void ledger_table_set(struct ledger *l, addr_t start, uint64_t bytes, const addr_t *pointers, size_t n) {
    bool any = n > 0;
    if (!valid(start, bytes))
        return;
    for (READING(&l->lock))
        any = n > 0 || tables_any(&l->tables, start, start + bytes);
    if (!any) /* most copies hold no pointers and overwrite none: they need no lock */
        return;
    write_begin(&l->lock);
    tables_set(&l->tables, start, start + bytes, pointers, n);
    bound_tables(l, start, start + bytes);
    write_end(&l->lock);
}

HOT bool ledger_any_table(const struct ledger *l) {
    return get(&l->table_high) != 0;
}

/* The caller knows that it writes. */
static void overwrite(struct ledger *l, const struct touch *t) {
    addr_t start = t->start, end = t->start + t->bytes;
    bool guess = t->mode == TOUCH_UPDATE, any = false;
    for (READING(&l->lock))
        any = guess ? tables_any_sure(&l->tables, start, end) : tables_any(&l->tables, start, end);
    if (!any)
        return;
    write_begin(&l->lock);
    if (guess)
        tables_doubt(&l->tables, start, end);
    else
        tables_gone(l, start, end);
    write_end(&l->lock);
}

void ledger_tables_touched(struct ledger *l, const struct touch *touches, size_t n) {
    for (const struct touch *t = touches; t < touches + n; t++)
        if (t->mode != TOUCH_READ && may_have_tables(l, t->start, t->start + t->bytes))
            overwrite(l, t);
}

void ledger_tables_doubt(struct ledger *l) {
    if (!get(&l->tables.sure))
        return;
    write_begin(&l->lock);
    tables_doubt_all(&l->tables);
    write_end(&l->lock);
}

size_t ledger_table_find(const struct ledger *shared, addr_t start, uint64_t bytes, addr_t *pointers, size_t n) {
    struct ledger *l = open_for_look(shared);
    size_t count = 0;
    if (!valid(start, bytes))
        return 0;
    for (READING(&l->lock))
        count = tables_find(&l->tables, start, start + bytes, pointers, n);
    return count;
}

bool ledger_table_read(const struct ledger *shared, addr_t start, size_t n, addr_t *pointers, bool *sure) {
    struct ledger *l = open_for_look(shared);
    bool known = false;
    if (!valid(start, n * sizeof(addr_t)))
        return false;
    for (READING(&l->lock))
        known = tables_read(&l->tables, start, n, pointers, sure);
    return known;
}

bool ledger_table_sure(const struct ledger *shared, addr_t start, uint64_t bytes) {
    struct ledger *l = open_for_look(shared);
    bool sure = false;
    if (!valid(start, bytes))
        return false;
    for (READING(&l->lock))
        sure = tables_cover(&l->tables, start, start + bytes);
    return sure;
}
