#include "ledger/addrmap.h"

#include "base/hot.h"
#include "ledger/check.h"
#include "ledger/hint.h"

/* When it is full, one of twice the capacity takes its place; look-ups may still be reading the older one. */
struct top {
    struct top *older;
    size_t capacity;
    word count;
    word words[]; /* capacity first addresses, then capacity struct chunk * */
};

struct place {
    struct top *top;
    size_t at; /* of the chunk in top */
    struct chunk *chunk;
    size_t index; /* in the chunk */
};

enum { TOP_FIRST = 254 }; /* chunks; with its head a whole page */

static size_t top_bytes(size_t capacity) {
    return sizeof(struct top) + 2 * capacity * sizeof(word);
}

static word *top_chunk(struct top *t, size_t at) {
    return &t->words[t->capacity + at];
}

/* How many of n sorted words, each `apart` words behind the one before, are <= p. Seven probes a step do not wait for
 * each other, and no branch depends on p. */
static inline __attribute__((always_inline)) size_t rank(const word *words, size_t apart, size_t n, addr_t p) {
    size_t base = 0;
    while (n > 8) {
        size_t step = n / 8, below = 0;
        for (size_t i = 1; i < 8; i++)
            below += get(&words[(base + i * step - 1) * apart]) <= p;
        base += below * step;
        n = below == 7 ? n - 7 * step : step;
    }
    size_t below = 0;
    for (size_t i = 0; i < n; i++)
        below += get(&words[(base + i) * apart]) <= p;
    return base + below;
}

static size_t rank_top(const struct top *t, size_t n, addr_t p) {
    return rank(t->words, 1, n, p);
}

static size_t rank_chunk(const struct chunk *c, size_t n, addr_t p) {
    return rank(&c->entries->start, sizeof *c->entries / sizeof(word), n, p);
}

/* The place of the last range that starts at or before p; false when there is none. */
static SELDOM bool locate(const struct addrmap *m, addr_t p, struct place *out) {
    struct top *t = get_pointer(&m->top);
    if (!t)
        return false;
    size_t at = rank_top(t, get(&t->count), p);
    if (at == 0)
        return false;
    struct chunk *c = get_pointer(top_chunk(t, at - 1));
    size_t index = rank_chunk(c, get(&c->count), p);
    if (index == 0)
        return false; /* only in a torn state */
    *out = (struct place){t, at - 1, c, index - 1};
    return true;
}

static void read_range(const struct chunk *c, size_t i, struct range *out) {
    const struct entry *e = &c->entries[i];
    *out = (struct range){get(&e->start), get(&e->end), get(&e->value)};
}

static void write_range(struct chunk *c, size_t i, const struct range *r) {
    struct entry *e = &c->entries[i];
    put(&e->start, r->start);
    put(&e->end, r->end);
    put(&e->value, r->value);
}

/* Nothing is in the entries [from, to) any more. */
static void hollow(struct chunk *c, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        put(&c->entries[i].end, 0);
}

/* The entry that a hint tells, as a number: it may be none, or another address's. */
static uintptr_t entry_told(const struct addrmap *m, uint64_t hash) {
    uint64_t told = hint_told(m, hash);
    return (told & -(uint64_t)CHUNK) + offsetof(struct chunk, entries) + told % CHUNK * sizeof(struct entry);
}

HOT void addrmap_foresee(const struct addrmap *m, const addr_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(hint_of(m, hint_hash(p[i])));
    for (size_t i = 0; i < n; i++) {
        uintptr_t entry = entry_told(m, hint_hash(p[i]));
        __builtin_prefetch((const void *)entry);
        __builtin_prefetch((const void *)(entry + offsetof(struct entry, value)));
    }
}

static SELDOM struct entry *find_located(struct addrmap *m, uint64_t hash, addr_t p) {
    struct place place;
    if (!locate(m, p, &place))
        return NULL;
    struct entry *e = &place.chunk->entries[place.index];
    if (p >= get(&e->end))
        return NULL;
    hint_set(m, hash, place.chunk, place.index);
    return e;
}

static inline struct entry *find(struct addrmap *m, addr_t p) {
    uint64_t hash = hint_hash(p);
    struct entry *e = hint_entry(m, hash, p);
    return __builtin_expect(e != NULL, 1) ? e : find_located(m, hash, p);
}

HOT bool addrmap_find(struct addrmap *m, addr_t p, struct range *out) {
    struct entry *e = find(m, p);
    if (!e)
        return false;
    *out = (struct range){get(&e->start), get(&e->end), get(&e->value)};
    return true;
}

bool addrmap_before(const struct addrmap *m, addr_t p, struct range *out) {
    struct place place;
    if (!locate(m, p, &place))
        return false;
    read_range(place.chunk, place.index, out);
    return true;
}

bool addrmap_after(const struct addrmap *m, addr_t p, struct range *out) {
    struct top *t = get_pointer(&m->top);
    struct place place = {.top = t};
    if (!t)
        return false;
    if (locate(m, p, &place)) {
        read_range(place.chunk, place.index, out);
        if (out->start == p)
            return true;
        if (++place.index >= get(&place.chunk->count)) {
            place.at++;
            place.index = 0;
        }
    }
    if (place.at >= get(&place.top->count))
        return false;
    place.chunk = get_pointer(top_chunk(place.top, place.at));
    if (place.index >= get(&place.chunk->count))
        return false; /* only in a torn state: what lies there may never have been written whole */
    read_range(place.chunk, place.index, out);
    return out->start >= p; /* or a loop over a torn state might not end */
}

bool addrmap_fits(const struct addrmap *m, const struct range *r) {
    struct range after;
    struct place place;
    if (!locate(m, r->start, &place))
        return !addrmap_after(m, r->start, &after) || after.start >= r->end;
    if (get(&place.chunk->entries[place.index].end) > r->start)
        return false;
    if (place.index + 1 < get(&place.chunk->count))
        return get(&place.chunk->entries[place.index + 1].start) >= r->end;
    return place.at + 1 >= get(&place.top->count) || get(&place.top->words[place.at + 1]) >= r->end;
}

/* Moves n ranges; from and to may overlap. */
static void move(struct chunk *to, size_t at, const struct chunk *from, size_t index, size_t n) {
    struct range r;
    bool up = to == from && at > index;
    for (size_t i = 0; i < n; i++) {
        size_t k = up ? n - 1 - i : i;
        read_range(from, index + k, &r);
        write_range(to, at + k, &r);
    }
}

static void top_set(struct top *t, size_t at, struct chunk *c) {
    put(&t->words[at], get(&c->entries[0].start));
    put_pointer(top_chunk(t, at), c);
}

/* Copies the entries [from, from + n) to the place at `to` of the same or another top. */
static void top_move(struct top *target, size_t to, struct top *source, size_t from, size_t n) {
    bool up = target == source && to > from;
    for (size_t i = 0; i < n; i++) {
        size_t k = up ? n - 1 - i : i;
        put(&target->words[to + k], get(&source->words[from + k]));
        put(top_chunk(target, to + k), get(top_chunk(source, from + k)));
    }
}

/* Makes room for one more chunk. */
static SELDOM struct top *top_room(struct addrmap *m) {
    struct top *t = get_pointer(&m->top);
    size_t n = t ? get(&t->count) : 0;
    if (t && n < t->capacity)
        return t;
    size_t capacity = t ? 2 * t->capacity : TOP_FIRST;
    struct top *wider = pages_new(top_bytes(capacity));
    if (!wider)
        return NULL;
    wider->older = t;
    wider->capacity = capacity;
    if (t)
        top_move(wider, 0, t, 0, n);
    put(&wider->count, n);
    put_pointer(&m->top, wider);
    return wider;
}

static SELDOM void top_insert(struct top *t, size_t at, struct chunk *c) {
    size_t n = get(&t->count);
    top_move(t, at + 1, t, at, n - at);
    top_set(t, at, c);
    put(&t->count, n + 1);
}

static SELDOM void top_erase(struct addrmap *m, struct top *t, size_t at, size_t n) {
    size_t count = get(&t->count);
    for (size_t i = at; i < at + n; i++) {
        struct chunk *c = get_pointer(top_chunk(t, i));
        put(&c->count, 0);
        hollow(c, 0, CHUNK);
        pool_give(&m->chunks, c);
    }
    top_move(t, at, t, at + n, count - at - n);
    put(&t->count, count - n);
}

/* Puts a chunk behind the full one at *place and sets *place to where the range is to go. At the map's end the new
 * chunk starts empty: ranges that come in ascending order fill their chunks. */
static SELDOM bool split(struct addrmap *m, struct place *place) {
    struct top *t = top_room(m);
    struct chunk *c = place->chunk, *behind = t ? pool_take(&m->chunks, sizeof(struct chunk)) : NULL;
    if (!behind)
        return false;
    bool ascending = place->index == CHUNK && place->at + 1 == get(&t->count);
    size_t keep = ascending ? CHUNK : CHUNK / 2;
    move(behind, 0, c, keep, CHUNK - keep);
    put(&behind->count, CHUNK - keep);
    put(&c->count, keep);
    hollow(c, keep, CHUNK);
    top_insert(t, place->at + 1, behind);
    place->top = t;
    if (ascending || place->index > keep) {
        place->at++;
        place->chunk = behind;
        place->index -= keep;
    }
    return true;
}

static SELDOM bool first_chunk(struct addrmap *m, struct place *out) {
    struct top *t = top_room(m);
    struct chunk *c = t ? pool_take(&m->chunks, sizeof(struct chunk)) : NULL;
    if (!c)
        return false;
    put(&c->count, 0);
    top_insert(t, 0, c);
    *out = (struct place){t, 0, c, 0};
    return true;
}

void addrmap_lend(struct addrmap *m, void *memory, size_t bytes) {
    pool_lend(&m->chunks, memory, bytes, sizeof(struct chunk));
}

bool addrmap_insert(struct addrmap *m, const struct range *r) {
    struct top *t = get_pointer(&m->top);
    struct place place;
    if (locate(m, r->start, &place))
        place.index++;
    else if (t && get(&t->count) > 0)
        place = (struct place){t, 0, get_pointer(top_chunk(t, 0)), 0};
    else if (!first_chunk(m, &place))
        return false;
    if (get(&place.chunk->count) == CHUNK && !split(m, &place))
        return false;
    struct chunk *c = place.chunk;
    size_t n = get(&c->count);
    move(c, place.index + 1, c, place.index, n - place.index);
    write_range(c, place.index, r);
    put(&c->count, n + 1);
    top_set(place.top, place.at, c);
    put(&m->count, get(&m->count) + 1);
    return true;
}

HOT void addrmap_set(struct addrmap *m, const struct range *r) {
    struct entry *e = find(m, r->start);
    if (!e)
        return;
    put(&e->end, r->end);
    put(&e->value, r->value);
}

/* Takes out n ranges, not all, of a chunk. */
static void cut(struct top *t, size_t at, size_t index, size_t n) {
    struct chunk *c = get_pointer(top_chunk(t, at));
    size_t count = get(&c->count);
    move(c, index, c, index + n, count - index - n);
    put(&c->count, count - n);
    hollow(c, count - n, count);
    top_set(t, at, c);
}

/* No two neighbours are together less than half full, which bounds memory by the number of ranges. */
static void merge(struct addrmap *m, struct top *t, size_t at) {
    struct chunk *c = get_pointer(top_chunk(t, at)), *next = get_pointer(top_chunk(t, at + 1));
    size_t n = get(&c->count), more = get(&next->count);
    if (n + more > CHUNK / 2)
        return;
    move(c, n, next, 0, more);
    put(&c->count, n + more);
    top_erase(m, t, at + 1, 1);
}

/* The pairs around the one or two chunks from `first` on, of which ranges were taken out. */
static void merge_around(struct addrmap *m, struct top *t, size_t first) {
    for (size_t at = first + 2; at > 0 && at >= first; at--)
        if (at < get(&t->count))
            merge(m, t, at - 1);
}

uint64_t addrmap_erase(struct addrmap *m, addr_t from, addr_t to) {
    struct top *t = get_pointer(&m->top);
    size_t chunks = t ? get(&t->count) : 0;
    if (chunks == 0 || from >= to)
        return 0;
    size_t last = rank_top(t, chunks, to - 1), first = rank_top(t, chunks, from - 1);
    first -= first > 0; /* its last ranges may start in [from, to) */
    uint64_t erased = 0;
    size_t gone = 0, gone_at = first; /* chunks emptied: they are neighbours */
    for (size_t at = first; at < last; at++) {
        struct chunk *c = get_pointer(top_chunk(t, at));
        size_t n = get(&c->count), low = rank_chunk(c, n, from - 1), high = rank_chunk(c, n, to - 1);
        erased += high - low;
        if (high - low < n)
            cut(t, at, low, high - low);
        else if (gone++ == 0)
            gone_at = at;
    }
    if (gone > 0)
        top_erase(m, t, gone_at, gone);
    put(&m->count, get(&m->count) - erased);
    merge_around(m, t, first);
    return erased;
}

void addrmap_clear(struct addrmap *m) {
    for (struct top *t = get_pointer(&m->top), *older; t; t = older) {
        older = t->older;
        pages_delete(t, top_bytes(t->capacity));
    }
    put_pointer(&m->top, NULL);
    put(&m->count, 0);
    pool_clear(&m->chunks);
    for (size_t i = 0; i < 1 << HINT_BITS; i++)
        put(&m->hints[i], 0);
}

void addrmap_check(const struct addrmap *m) {
    struct top *t = get_pointer(&m->top);
    uint64_t count = 0, before = 0;
    addr_t end = 0;
    for (size_t at = 0; t && at < get(&t->count); at++) {
        const struct chunk *c = get_pointer(top_chunk(t, at));
        uint64_t n = get(&c->count);
        INVARIANT(n > 0 && n <= CHUNK, "chunk %zu holds %llu ranges", at, (unsigned long long)n);
        INVARIANT(at == 0 || before + n > CHUNK / 2, "chunk %zu and the one before it hold too few", at);
        INVARIANT(get(&t->words[at]) == get(&c->entries[0].start), "chunk %zu starts elsewhere", at);
        for (size_t i = 0; i < n; i++) {
            struct range r;
            read_range(c, i, &r);
            INVARIANT(r.start >= end && r.end > r.start, "range 0x%llx-0x%llx behind 0x%llx",
                      (unsigned long long)r.start, (unsigned long long)r.end, (unsigned long long)end);
            end = r.end;
        }
        for (size_t i = n; i < CHUNK; i++)
            INVARIANT(get(&c->entries[i].end) == 0, "chunk %zu has a range behind its last", at);
        before = n;
        count += n;
    }
    INVARIANT(count == get(&m->count), "%llu ranges, counted %llu", (unsigned long long)count,
              (unsigned long long)get(&m->count));
}
