/* Where look-ups of an address ended last, which is often right: memory is used again and again. For addrmap.c, and for
 * look-ups that cannot afford a call. */
#ifndef ULMS_HINT_H
#define ULMS_HINT_H

#include "base/spread.h"
#include "ledger/addrmap.h"

enum { CHUNK = 64 };

struct entry {
    word start, end, value; /* end is 0 behind the last: a hint finds no range there */
};

struct chunk {
    word spare; /* the pool's */
    word count; /* 0: given back */
    _Alignas(64) struct entry entries[CHUNK];
};

/* A hint is an entry's address with more of the hash in the high bits, which are free in user space: a hint for another
 * address is told without looking at its entry. */
#define HINT_TAG 0xffff000000000000u

static inline uint64_t hint_hash(addr_t p) {
    return spread(p >> 4);
}

static inline word *hint_of(const struct addrmap *m, uint64_t hash) {
    return (word *)(uintptr_t)&m->hints[hash >> (64 - HINT_BITS)];
}

/* The entry's address as a number: it may be none, or another address's. */
static inline uint64_t hint_told(const struct addrmap *m, uint64_t hash) {
    return get(hint_of(m, hash)) ^ (hash << HINT_BITS & HINT_TAG);
}

static inline void hint_set(struct addrmap *m, uint64_t hash, const struct entry *e) {
    put(hint_of(m, hash), (uintptr_t)e ^ (hash << HINT_BITS & HINT_TAG));
}

/* The entry of the range that holds p; NULL when none does. */
struct entry *addrmap_entry(struct addrmap *m, addr_t p);

/* The entry of the range that holds p, or NULL: then it may still be there. hash: of p. */
static inline struct entry *hint_entry(const struct addrmap *m, uint64_t hash, addr_t p) {
    uint64_t told = hint_told(m, hash);
    struct entry *e = (struct entry *)(uintptr_t)told;
    if (told & HINT_TAG || !e)
        return NULL;
    return get(&e->start) <= p && p < get(&e->end) ? e : NULL;
}

#endif
