/* Pages: what the engine does not know of them. A range is the pages of one allocation. Under the device's lock. */
#ifndef ULMS_PAGER_PAGES_H
#define ULMS_PAGER_PAGES_H

#include "base/spans.h"

struct pager_page {
    /* 1 + the ticket of the last operation issued before the framework took back the last block here; 0: the content
     * may matter to somebody. Only what was issued before may still use it, known to us or not. */
    uint64_t died;
    uint8_t advice; /* ULMS_ADVICE_* */
    bool in_place;  /* advised to be used on the host */
    bool lingers;   /* discarded, and not brought or used since: its place on the device may be free, or not */
};

struct pager_range {
    addr_t start;
    uint64_t bytes; /* whole pages */
    bool freed;     /* in stream order: it leaves later */
    struct pager_page page[];
};

struct pager_piece {
    addr_t start;
    uint64_t bytes;
};

/* NULL: no memory, or there is a range already. */
struct pager_range *pager_range_add(struct spans *r, addr_t start, uint64_t bytes);
/* NULL: none starts there. */
struct pager_range *pager_range_at(const struct spans *r, addr_t start);
/* The same. The caller frees it. */
struct pager_range *pager_range_take(struct spans *r, addr_t start);
/* The memory of a range that was taken may be given out again as it is: what advice is still set is remembered. Frees
 * the range, now or later. */
void pager_range_remember_advice(struct spans *still_advised, struct pager_range *range);
/* New memory has the advice that it was left with. */
void pager_range_inherit_advice(struct spans *still_advised, struct pager_range *range);
/* Calls for each page of [start, end) that there is. */
void pager_pages_visit(struct spans *r, addr_t start, addr_t end, void (*visit)(struct pager_page *, addr_t, void *),
                       void *data);
/* Sets `died` of each. */
void pager_pages_died(struct spans *r, addr_t start, addr_t end, uint64_t died);
/* An operation uses them: they are nobody's no more. */
void pager_pages_used(struct spans *r, addr_t start, addr_t end);
/* Bytes of those that linger. */
uint64_t pager_pages_lingering(const struct spans *r);
/* The parts of [start, end) that are of one allocation each, n at most; returns how many. */
int pager_ranges_split(const struct spans *r, addr_t start, addr_t end, struct pager_piece *piece, int n);
/* The page at p; NULL: there is none. */
struct pager_page *pager_page_at(const struct spans *r, addr_t p);

#endif
