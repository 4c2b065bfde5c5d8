/* How many pages with bytes come ahead of need. */
#ifndef ULMS_ENGINE_DEPTH_H
#define ULMS_ENGINE_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

struct ulms_engine;

struct depth {
    bool eager;         /* any number of pages may be ready */
    uint64_t pages;     /* else so many; UINT64_MAX: any number */
    uint64_t untouched; /* pages that are ready, but for those that fill */
    uint64_t most;      /* that were ready at once in the round under way, where one more might have come */
    bool reached;       /* in this round `pages` kept one from coming */
    bool settles;       /* it counts for nothing: too few were ready when it began */
    uint64_t first;     /* serial that began it; 0: none is under way */
    uint64_t late;      /* operations that were, when it began */
    uint64_t calm;      /* rounds in a row in which none was */
    uint64_t least;     /* fewer are not tried */
    uint64_t rounds;    /* until they are; 0: `least` is the least of all */
    uint64_t again;     /* so many rounds, the next time that they were too few */
};

void depth_open(struct ulms_engine *e);
/* So many pages more may come ahead of need. */
uint64_t depth_left(const struct ulms_engine *e);
/* Before one might: there is room for it. */
void depth_asked(struct ulms_engine *e);
void depth_issued(struct ulms_engine *e, uint64_t now, bool surprise);

#endif
