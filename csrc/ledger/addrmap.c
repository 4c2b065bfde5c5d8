#include "ledger/addrmap.h"

#include "base/hot.h"
#include "base/invariant.h"
#include "ledger/place.h"

SELDOM bool addrmap_locate(const struct addrmap *m, addr_t p, struct place *out) {
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

HOT void addrmap_foresee(const struct addrmap *m, const addr_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        __builtin_prefetch(hint_of(m, hint_hash(p[i])));
    for (size_t i = 0; i < n; i++) {
        uintptr_t entry = hint_told(m, hint_hash(p[i]));
        __builtin_prefetch((const void *)entry);
        __builtin_prefetch((const void *)(entry + offsetof(struct entry, value)));
    }
}

static SELDOM struct entry *find_located(struct addrmap *m, uint64_t hash, addr_t p) {
    struct place place;
    if (!addrmap_locate(m, p, &place))
        return NULL;
    struct entry *e = &place.chunk->entries[place.index];
    if (p >= get(&e->end))
        return NULL;
    hint_set(m, hash, e);
    return e;
}

HOT struct entry *addrmap_entry(struct addrmap *m, addr_t p) {
    uint64_t hash = hint_hash(p);
    struct entry *e = hint_entry(m, hash, p);
    return __builtin_expect(e != NULL, 1) ? e : find_located(m, hash, p);
}

HOT bool addrmap_find(struct addrmap *m, addr_t p, struct range *out) {
    struct entry *e = addrmap_entry(m, p);
    if (!e)
        return false;
    *out = (struct range){get(&e->start), get(&e->end), get(&e->value)};
    return true;
}

bool addrmap_before(const struct addrmap *m, addr_t p, struct range *out) {
    struct place place;
    if (!addrmap_locate(m, p, &place))
        return false;
    read_range(place.chunk, place.index, out);
    return true;
}

bool addrmap_after(const struct addrmap *m, addr_t p, struct range *out) {
    struct top *t = get_pointer(&m->top);
    struct place place = {.top = t};
    if (!t)
        return false;
    if (addrmap_locate(m, p, &place)) {
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
    if (!addrmap_locate(m, r->start, &place))
        return !addrmap_after(m, r->start, &after) || after.start >= r->end;
    if (get(&place.chunk->entries[place.index].end) > r->start)
        return false;
    if (place.index + 1 < get(&place.chunk->count))
        return get(&place.chunk->entries[place.index + 1].start) >= r->end;
    return place.at + 1 >= get(&place.top->count) || get(&place.top->words[place.at + 1]) >= r->end;
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
