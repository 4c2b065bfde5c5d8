/* Greedy choice in virtual time, what a plan is compared with: pages come in the order in which operations need them,
 * and when there is no frame the page whose next touch is farthest gives up its own, dead ones first. */
#ifndef ULMS_ENGINE_GREEDY_H
#define ULMS_ENGINE_GREEDY_H

#include "engine/heap.h"
#include "engine/mover.h"
#include "engine/plan.h"

struct greedy_page {
    uint64_t need; /* the operation of its next touch that has not retired */
    uint8_t state;
    bool dirty;
    bool dead;
};

struct greedy {
    const struct period *period;
    struct greedy_page *pages;
    struct heap live, dead; /* resident pages, farthest next touch first; some are stale */
    uint64_t operation;     /* the one that waits or runs */
    uint64_t ahead;         /* the one whose pages are being brought */
    uint32_t touch;         /* the first of it that may be absent */
    uint32_t missing;       /* pages of the waiting operation that are not resident */
    uint32_t frames;        /* free ones */
};

/* An empty device before operation 0. False: no memory; may be closed all the same. */
bool greedy_open(struct greedy *g, const struct period *period, uint32_t budget);
void greedy_close(struct greedy *g);
struct mover greedy_mover(struct greedy *g);

#endif
