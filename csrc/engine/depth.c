/* How many pages with bytes come ahead of need. Where operations wait for pages, as many as may; where none does, no
 * more than it takes that none does: each of them is one more that leaves, and comes again in the next period. */
#include "engine/engine.h"

enum {
    CALM = 2,   /* rounds in a row without a late operation, before fewer are tried */
    PART = 4,   /* a quarter fewer */
    AGAIN = 16, /* rounds, until as few are tried again as were too few */
    RARER = 4   /* so many times as many until the next time */
};

static uint64_t ready(const struct ulms_engine *e) {
    return e->depth.untouched + e->filling;
}

void depth_open(struct ulms_engine *e) {
    e->depth = (struct depth){.pages = UINT64_MAX, .least = e->run_pages + e->near_pages, .again = AGAIN};
}

uint64_t depth_left(const struct ulms_engine *e) {
    return e->depth.eager ? UINT64_MAX : e->depth.pages - smaller(e->depth.pages, ready(e));
}

void depth_asked(struct ulms_engine *e) {
    struct depth *d = &e->depth;
    d->most = ready(e) > d->most ? ready(e) : d->most;
    d->reached |= depth_left(e) == 0;
}

static void judge(struct ulms_engine *e, bool late) {
    struct depth *d = &e->depth;
    if (d->rounds > 0 && --d->rounds == 0)
        d->least = e->run_pages + e->near_pages;
    if (late && d->reached) {
        d->least = d->pages + d->pages / (PART - 1) + 1;
        d->rounds = d->again;
        d->again *= RARER;
    }
    if (late) {
        uint64_t pages = d->reached && d->calm > 0 ? d->least : UINT64_MAX;
        d->settles = pages > d->pages;
        d->pages = pages;
    }
    d->calm = late ? 0 : d->calm + 1;
    if (d->calm > CALM) {
        uint64_t most = smaller(d->most, d->pages), fewer = most - most / PART;
        d->pages = fewer > d->least ? fewer : d->least;
    }
}

void depth_issued(struct ulms_engine *e, uint64_t now, bool surprise) {
    struct depth *d = &e->depth;
    bool goes_on = !surprise && e->track.on;
    if (goes_on && d->first && e->track.position < d->first)
        return;
    bool whole = goes_on && d->first && d->most > 0, settled = !d->settles;
    bool late = d->first && e->stats.late_operations > d->late;
    d->settles = !whole;
    if (whole && settled)
        judge(e, late);
    else if (!whole && late && d->reached) { /* none may be whole from now on */
        d->pages = UINT64_MAX;
        d->calm = 0;
    }
    d->first = goes_on ? now : 0;
    d->late = e->stats.late_operations;
    d->most = 0;
    d->reached = false;
}
