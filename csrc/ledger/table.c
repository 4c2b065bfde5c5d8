#include "ledger/table.h"

#include "base/invariant.h"

enum { CELL_POINTERS = 10 }; /* two lines of the cache */

#define DOUBTED UINT64_MAX

/* The pointers of a table are a list of cells. What is left of one table, in several ranges, shares its list. */
struct cell {
    _Alignas(64) word spare; /* the pool's */
    word next;               /* struct cell * */
    word count;              /* in the first cell: pointers in the list, at least one */
    word ranges;             /* in the first cell: how many share the list */
    word start;  /* in the first cell: where the first pointer was copied to, with no gap up to the last; or 0 */
    word doubts; /* in the first cell: of the tables when it was set; DOUBTED */
    word pointers[CELL_POINTERS];
};

static struct cell *list_of(const struct range *r) {
    return (struct cell *)(uintptr_t)r->value;
}

static void list_give(struct tables *t, struct cell *c) {
    for (struct cell *next; c; c = next) {
        next = get_pointer(&c->next);
        pool_give(&t->cells, c);
    }
}

static struct cell *list_new(struct tables *t, addr_t start, const addr_t *pointers, size_t n) {
    struct cell *first = NULL;
    for (size_t cells = (n + CELL_POINTERS - 1) / CELL_POINTERS; cells-- > 0;) {
        struct cell *c = pool_take(&t->cells, sizeof(struct cell));
        if (!c) {
            list_give(t, first);
            return NULL;
        }
        for (size_t i = cells * CELL_POINTERS; i < n && i < (cells + 1) * CELL_POINTERS; i++)
            put(&c->pointers[i % CELL_POINTERS], pointers[i]);
        put_pointer(&c->next, first);
        first = c;
    }
    put(&first->count, n);
    put(&first->ranges, 1);
    put(&first->start, start);
    put(&first->doubts, get(&t->doubts));
    return first;
}

/* Copies at most room of the list's pointers. Returns how many there are. */
static size_t list_copy(const struct cell *c, addr_t *to, size_t room) {
    size_t count = get(&c->count);
    for (size_t i = 0; c && i < count && i < room; i++) {
        to[i] = get(&c->pointers[i % CELL_POINTERS]);
        if (i % CELL_POINTERS == CELL_POINTERS - 1)
            c = get_pointer(&c->next);
    }
    return count;
}

/* The first table that reaches beyond start. */
static bool first_in(const struct tables *t, addr_t start, struct range *out) {
    return (addrmap_before(&t->ranges, start, out) && out->end > start) || addrmap_after(&t->ranges, start, out);
}

bool tables_any(const struct tables *t, addr_t start, addr_t end) {
    struct range r;
    return first_in(t, start, &r) && r.start < end;
}

static bool is_sure(const struct tables *t, const struct range *r) {
    return get(&list_of(r)->doubts) == get(&t->doubts);
}

bool tables_any_sure(const struct tables *t, addr_t start, addr_t end) {
    struct range r;
    bool sure = false;
    for (bool any = first_in(t, start, &r); any && r.start < end && !sure;
         any = addrmap_after(&t->ranges, r.start + 1, &r))
        sure = is_sure(t, &r);
    return sure;
}

bool tables_cover(const struct tables *t, addr_t start, addr_t end) {
    struct range r;
    addr_t at = start;
    bool any = first_in(t, start, &r);
    while (any && r.start <= at && is_sure(t, &r) && (at = r.end) < end)
        any = addrmap_after(&t->ranges, r.start + 1, &r);
    return at >= end;
}

size_t tables_find(const struct tables *t, addr_t start, addr_t end, addr_t *pointers, size_t n) {
    struct range r;
    size_t count = 0;
    for (bool any = first_in(t, start, &r); any && r.start < end; any = addrmap_after(&t->ranges, r.start + 1, &r)) {
        size_t copied = count < n ? count : n;
        count += list_copy(list_of(&r), pointers + copied, n - copied);
    }
    return count;
}

bool tables_read(const struct tables *t, addr_t start, size_t n, addr_t *pointers, bool *sure) {
    struct range r;
    if (!first_in(t, start, &r) || r.start > start || r.end < start + n * sizeof(addr_t))
        return false;
    const struct cell *c = list_of(&r);
    addr_t first = get(&c->start);
    size_t skip = (start - first) / sizeof(addr_t), count = get(&c->count);
    if (first == 0 || (start - first) % sizeof(addr_t) || skip > count || n > count - skip)
        return false;
    *sure = is_sure(t, &r);
    for (; c && skip >= CELL_POINTERS; skip -= CELL_POINTERS)
        c = get_pointer(&c->next);
    for (size_t i = skip; c && i < skip + n; i++) {
        pointers[i - skip] = get(&c->pointers[i % CELL_POINTERS]);
        if (i % CELL_POINTERS == CELL_POINTERS - 1)
            c = get_pointer(&c->next);
    }
    return true;
}

/* What of the table lies beyond end becomes a range of its own. */
static void keep_beyond(struct tables *t, const struct range *r, addr_t end) {
    struct cell *list = list_of(r);
    if (r->end > end && addrmap_insert(&t->ranges, &(struct range){end, r->end, r->value}))
        put(&list->ranges, get(&list->ranges) + 1);
}

void tables_forget(struct tables *t, addr_t start, addr_t end) {
    struct range r;
    if (addrmap_before(&t->ranges, start, &r) && r.start < start && r.end > start) {
        keep_beyond(t, &r, end);
        addrmap_set(&t->ranges, &(struct range){r.start, start, r.value});
    }
    for (addr_t at = start; addrmap_after(&t->ranges, at, &r) && r.start < end; at = r.start + 1) {
        keep_beyond(t, &r, end);
        uint64_t ranges = get(&list_of(&r)->ranges) - 1;
        put(&list_of(&r)->ranges, ranges);
        if (ranges == 0)
            list_give(t, list_of(&r));
    }
    addrmap_erase(&t->ranges, start, end);
}

void tables_doubt(struct tables *t, addr_t start, addr_t end) {
    struct range r;
    for (bool any = first_in(t, start, &r); any && r.start < end; any = addrmap_after(&t->ranges, r.start + 1, &r))
        put(&list_of(&r)->doubts, DOUBTED);
}

void tables_doubt_all(struct tables *t) {
    put(&t->doubts, get(&t->doubts) + 1);
    put(&t->sure, 0);
}

void tables_set(struct tables *t, addr_t start, addr_t end, const addr_t *pointers, size_t n) {
    tables_forget(t, start, end);
    bool dense = n * sizeof(addr_t) == end - start;
    struct cell *list = n > 0 ? list_new(t, dense ? start : 0, pointers, n) : NULL;
    if (list && !addrmap_insert(&t->ranges, &(struct range){start, end, (uintptr_t)list}))
        list_give(t, list);
    else if (list)
        put(&t->sure, 1);
}

void tables_clear(struct tables *t) {
    addrmap_clear(&t->ranges);
    pool_clear(&t->cells);
}

void tables_check(const struct tables *t) {
    struct range r, other;
    addrmap_check(&t->ranges);
    for (addr_t at = 0; addrmap_after(&t->ranges, at, &r); at = r.end) {
        const struct cell *list = list_of(&r);
        uint64_t cells = 0, ranges = 0;
        for (const struct cell *c = list; c; c = get_pointer(&c->next))
            cells++;
        INVARIANT(get(&list->count) > 0 && cells == (get(&list->count) + CELL_POINTERS - 1) / CELL_POINTERS,
                  "%llu pointers in %llu cells", (unsigned long long)get(&list->count), (unsigned long long)cells);
        for (addr_t from = 0; addrmap_after(&t->ranges, from, &other); from = other.end)
            ranges += other.value == r.value;
        INVARIANT(ranges == get(&list->ranges), "%llu ranges share a list, counted %llu", (unsigned long long)ranges,
                  (unsigned long long)get(&list->ranges));
    }
}
