/* Where ranges lie in an addrmap; for addrmap.c, which looks them up, and addrmap_change.c. */
#ifndef ULMS_PLACE_H
#define ULMS_PLACE_H

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

static inline size_t top_bytes(size_t capacity) {
    return sizeof(struct top) + 2 * capacity * sizeof(word);
}

static inline word *top_chunk(struct top *t, size_t at) {
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

static inline size_t rank_top(const struct top *t, size_t n, addr_t p) {
    return rank(t->words, 1, n, p);
}

static inline size_t rank_chunk(const struct chunk *c, size_t n, addr_t p) {
    return rank(&c->entries->start, sizeof *c->entries / sizeof(word), n, p);
}

static inline void read_range(const struct chunk *c, size_t i, struct range *out) {
    const struct entry *e = &c->entries[i];
    *out = (struct range){get(&e->start), get(&e->end), get(&e->value)};
}

/* The place of the last range that starts at or before p; false when there is none. */
bool addrmap_locate(const struct addrmap *m, addr_t p, struct place *out);

#endif
