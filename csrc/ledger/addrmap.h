/* Ranges of addresses that do not overlap, in order, each with a value; found by any address inside. Address 0 is in
 * none.
 *
 * Sorted chunks under one sorted array of their first addresses. All memory is the map's own and stays readable until
 * addrmap_clear, so look-ups may run beside one writer, under a seqlock (seqlock.h). A zeroed map is an empty one. */
#ifndef ULMS_ADDRMAP_H
#define ULMS_ADDRMAP_H

#include "ledger/pool.h"
#include "ledger/word.h"
#include "types.h"

enum { HINT_BITS = 15 };

struct range {
    addr_t start, end; /* end is the first address after it */
    uint64_t value;
};

struct addrmap {
    word top;   /* struct top *: the chunks in order; NULL in an empty map */
    word count; /* ranges */
    struct pool chunks;
    word hints[1 << HINT_BITS]; /* where look-ups of such an address ended last; may be stale, never invalid */
};

/* --- look-ups --- */

/* These n addresses will be looked up next: brings what the look-ups will read nearer, all at once. */
void addrmap_foresee(const struct addrmap *m, const addr_t *p, size_t n);
/* The range that holds p. */
bool addrmap_find(struct addrmap *m, addr_t p, struct range *out);
/* The last range that starts at or before p; the first that starts at or after p. */
bool addrmap_before(const struct addrmap *m, addr_t p, struct range *out);
bool addrmap_after(const struct addrmap *m, addr_t p, struct range *out);

/* No range of the map overlaps r. */
bool addrmap_fits(const struct addrmap *m, const struct range *r);

/* --- changes: the caller holds the writer's lock --- */

/* An empty map keeps its first ranges in this memory, 64-byte aligned and zeroed. */
void addrmap_lend(struct addrmap *m, void *memory, size_t bytes);
/* False when the system has no memory; then nothing has changed. No range of the map starts at r->start. */
bool addrmap_insert(struct addrmap *m, const struct range *r);
/* Sets end and value of the range that starts at r->start: there is one. */
void addrmap_set(struct addrmap *m, const struct range *r);
/* Puts r where ranges may be that all have a bit of `spare` in their values: those that start in it go, *gone of them,
 * and one that starts before it ends there. False, and nothing has changed, where others are, or as far as they do not
 * lie together: take them out and insert it. */
bool addrmap_replace(struct addrmap *m, const struct range *r, uint64_t spare, uint64_t *gone);
/* Takes out all ranges that start in [from, to). Returns how many. */
uint64_t addrmap_erase(struct addrmap *m, addr_t from, addr_t to);
/* Empties the map and gives all memory back. No look-up may be under way. */
void addrmap_clear(struct addrmap *m);

/* Aborts with a line unless the map is in order. */
void addrmap_check(const struct addrmap *m);

#endif
