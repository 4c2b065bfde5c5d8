/* Ranges of addresses that do not overlap, in order, and what belongs to each. Whoever looks for an address reads no
 * more than the list. */
#ifndef ULMS_SPANS_H
#define ULMS_SPANS_H

#include "types.h"

struct spans {
    struct spans_row {
        addr_t start, end;
        void *what;
    } *at;
    size_t count, capacity;
};

/* Index of the first that ends behind p. */
size_t spans_behind(const struct spans *r, addr_t p);
/* NULL: none holds p. */
void *spans_find(const struct spans *r, addr_t p);
/* False: no memory, or another one is there. */
bool spans_insert(struct spans *r, addr_t start, addr_t end, void *what);
/* Makes one of the range and of those that it meets or overlaps; nothing belongs to it. How many bytes of it were in
 * none before. */
uint64_t spans_cover(struct spans *r, addr_t start, addr_t end);
/* What belonged to the one of that index, which is there no more. */
void *spans_take(struct spans *r, size_t i);

#endif
