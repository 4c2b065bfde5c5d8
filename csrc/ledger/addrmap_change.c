#include "base/hot.h"
#include "ledger/place.h"

enum { TOP_FIRST = 254 }; /* chunks; with its head a whole page */

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
    if (addrmap_locate(m, r->start, &place))
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

void addrmap_set(struct addrmap *m, const struct range *r) {
    struct entry *e = addrmap_entry(m, r->start);
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

/* The first range of the chunk, from the i-th on, that does not start before p. */
static size_t first_from(const struct chunk *c, size_t i, addr_t p) {
    while (i < get(&c->count) && get(&c->entries[i].start) < p)
        i++;
    return i;
}

static bool are_spare(const struct chunk *c, size_t from, size_t to, uint64_t spare) {
    for (size_t i = from; i < to; i++)
        if (!(get(&c->entries[i].value) & spare))
            return false;
    return true;
}

/* Where the ranges [from, to) of the chunk were, only r is. */
static void put_over(struct addrmap *m, const struct place *place, size_t from, size_t to, const struct range *r) {
    struct chunk *c = place->chunk;
    size_t n = get(&c->count);
    if (from == to) {
        move(c, from + 1, c, from, n - from);
        put(&c->count, n + 1);
    }
    write_range(c, from, r);
    put(&m->count, get(&m->count) + 1 - (to - from));
    if (to > from + 1) {
        cut(place->top, place->at, from + 1, to - from - 1);
        merge_around(m, place->top, place->at);
    }
}

bool addrmap_replace(struct addrmap *m, const struct range *r, uint64_t spare, uint64_t *gone) {
    struct place place;
    if (!addrmap_locate(m, r->start, &place))
        return false;
    struct chunk *c = place.chunk;
    struct entry *before = &c->entries[place.index];
    bool ahead = get(&before->start) < r->start, reaches = ahead && get(&before->end) > r->start;
    size_t from = place.index + ahead, to = first_from(c, from, r->end), next = place.at + 1;
    bool here = to < get(&c->count) || next >= get(&place.top->count) || get(&place.top->words[next]) >= r->end;
    bool room = to > from || get(&c->count) < CHUNK;
    if (!here || !room || !are_spare(c, reaches ? from - 1 : from, to, spare))
        return false;
    if (reaches)
        put(&before->end, r->start);
    put_over(m, &place, from, to, r);
    hint_set(m, hint_hash(r->start), &c->entries[from]);
    *gone = to - from;
    return true;
}
