/* The plan of a period: after which touch a page leaves, so that the pages of every operation fit (docs/plan.md).
 *
 *   period  operations that repeat; numbers above the last operation mean those of later rounds
 *   gap     from a touch of a page to its next one, cyclic; known by the touch that begins it
 *   away    of a gap: the page spends it in host memory
 *
 * Pure: no clock, no thread, nothing kept between calls. The same input gives the same plan. */
#ifndef ULMS_ENGINE_PLAN_H
#define ULMS_ENGINE_PLAN_H

#include "types.h"

enum { PLAN_OPERATIONS_MAX = 262144, PLAN_TOUCHES_MAX = 2097152 };

enum {
    PERIOD_WRITES = 1, /* the touch makes the host's copy invalid */
    PERIOD_DIES = 2    /* nobody reads the page between this touch and its next one */
};

struct period {
    uint32_t operations, touches, pages;
    uint32_t *first;       /* [operations + 1] the touches of operation k are first[k] up to first[k + 1] */
    uint64_t *duration_ns; /* [operations] */
    uint32_t *page;        /* [touches] below pages; at most once an operation */
    uint8_t *does;         /* [touches] PERIOD_* */
    uint32_t *operation;   /* [touches] by period_seal, as all that follows */
    uint32_t *next;        /* [touches] the page's next touch */
    uint32_t *previous;    /* [touches] the one before */
};

/* To be filled in and then sealed. NULL: no memory, or more than the most, or nothing. */
struct period *period_new(uint32_t operations, uint32_t touches, uint32_t pages);
/* False: something in it is not as stated above, or a page is never touched. */
bool period_seal(struct period *p);
void period_free(struct period *p);
/* Operations from a touch to the next one of its page: 1 to operations. */
uint32_t period_gap(const struct period *p, uint32_t touch);

struct plan {
    const struct period *period;
    uint32_t budget; /* pages */
    uint8_t *away;   /* [touches] 0 or 1: the gap that begins there */
    uint32_t *base;  /* [operations] pages touched by it, or in a gap across it that is not away and not dead */
};

enum plan_result {
    PLAN_MADE,
    PLAN_TOO_SMALL, /* an operation touches more pages than the budget has */
    PLAN_NO_MEMORY
};

/* The period must outlive the plan. False: no memory; may be closed all the same. */
bool plan_open(struct plan *plan, const struct period *period, uint32_t budget);
void plan_close(struct plan *plan);
/* Nothing is away; base says what that would hold. */
void plan_keep_all(struct plan *plan);
/* Chooses the gaps in one sweep over the period from operation start on: wherever more pages are held than the budget
 * has, the one whose next touch is farthest goes away; then takes back what was not needed, the shortest gap first.
 * Base is at most the budget everywhere when it was made. O(touches log touches + operations). */
enum plan_result plan_choose(struct plan *plan, uint32_t start);

/* Whether the page of that touch leaves after it. */
bool plan_leaves(const struct plan *plan, uint32_t touch);

#endif
