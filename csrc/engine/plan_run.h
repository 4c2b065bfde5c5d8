/* A plan carried out: which page may come or leave now, whatever the operations and moves take (docs/plan.md).
 *
 * It is told what happened and says what may be done next. Virtual time (rehearse.c) and the engine drive the same
 * code. Operations are numbered from any one on, and number modulo period is the operation of the plan; those below
 * `operation` have retired, in order. One caller at a time; nothing fails. */
#ifndef ULMS_ENGINE_PLAN_RUN_H
#define ULMS_ENGINE_PLAN_RUN_H

#include "engine/heap.h"
#include "engine/mover.h"
#include "engine/occupancy.h"
#include "engine/plan.h"

/* What a page is at the start. */
enum {
    PLAN_RESIDENT = 1,
    PLAN_HOST = 2, /* the host's copy is valid; of an absent live page it always is */
    PLAN_DEAD = 4
};

struct plan_page {
    uint64_t need;          /* the operation of its next touch */
    uint32_t touch;         /* that touch */
    uint32_t before, after; /* in its queue */
    uint8_t state;
    bool host;
    bool dead;
};

struct plan_queue {
    uint32_t first, last;
};

struct plan_run {
    const struct plan *plan;
    struct plan_page *pages;
    struct occupancy occupancy; /* base, and the fills granted */
    struct heap wanted;         /* pages that leave or are absent, live ones, by need; some are stale */
    struct heap fresh;          /* the same of absent dead ones */
    struct plan_queue bare;     /* to leave without bytes: the host's copy is valid, or they are dead */
    struct plan_queue laden;    /* to leave with bytes */
    uint64_t operation;         /* the one that waits or runs */
    uint64_t blocked;           /* an operation found full, which it is until it retires */
    int64_t frames;             /* free ones; below 0: entered with more pages than the budget has */
    uint32_t missing;           /* pages of the waiting operation that are not resident */
};

/* Enters a plan before that operation. pages: [pages of the period] PLAN_* of each; NULL: an empty device whose pages
 * are dead where the plan has them so. False: no memory; may be closed all the same. */
bool plan_run_open(struct plan_run *r, const struct plan *plan, uint64_t operation, const uint8_t *pages);
void plan_run_close(struct plan_run *r);

/* Whether every page of that operation, at most one period ahead, is resident and stays so until it has run. */
bool plan_run_ready(const struct plan_run *r, uint64_t operation);
/* It is admitted: what its pages hold matters again. Pre: ready. */
void plan_run_admitted(struct plan_run *r, uint64_t operation);
/* The operation that ran has retired; the next one waits. */
void plan_run_retired(struct plan_run *r);
/* The page holds nothing that an operation from now on, those that run included, will read. A gap that the plan has as
 * dead, and of which this is not said, is gone through in host memory. */
void plan_run_died(struct plan_run *r, uint32_t page);

/* The next page to leave, or to come. bytes: the lane is idle; else only pages that move without bytes. */
struct mover_step plan_run_out(struct plan_run *r, bool bytes);
struct mover_step plan_run_in(struct plan_run *r, bool bytes);
/* Such a page has left; has come. */
void plan_run_left(struct plan_run *r, uint32_t page);
void plan_run_came(struct plan_run *r, uint32_t page);

/* Whether its invariants hold: frames are counted exactly; planned occupancy is at most the budget everywhere, and now
 * at least the pages that have a frame and do not leave; no page is lost. For tests. O(operations + pages). */
bool plan_run_check(const struct plan_run *r);

#endif
