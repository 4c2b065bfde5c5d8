/* From moving pages back to where everything fits. One operation of ours stands for all memory: once it is admitted
 * every page is on the device, and while it runs none leaves. */
#include <stdlib.h>

#include "backend/pager/pager.h"
#include "base/log.h"

/* So long it must have fit: to begin again waits for all that was issued meanwhile. */
#define SETTLED_NS 500000000ull
#define LOOK_NS    2000000ull
/* So long something comes, or it is tried again later. */
#define FEWER_NS 100000000ull
#define LATER_NS 10000000000ull
/* So small a part of the budget must be left: else the next allocation begins to move pages again. */
enum { SLACK = 16 };

/* What was issued before pages began to move may still run, and is not told to the engine. */
static bool fits(struct pager *d) {
    pager_budget_update(d);
    uint64_t bytes = d->memory.bytes - d->memory.fixed, budget = d->budget.bytes + d->budget.lent;
    bool comes = bytes <= d->budget.bytes && bytes + budget / SLACK <= budget;
    return comes && pager_has_movers(d) && !d->phase.prior.ticket && pager_moves(d);
}

/* As what writes all: of what is only read the driver would keep copies, which the first write then breaks. */
static uint64_t touch_all(struct pager *d) {
    struct ulms_engine_touch *touches = calloc(d->memory.ranges.count + 1, sizeof *touches);
    if (!touches)
        return 0;
    size_t n = 0;
    for (size_t i = 0; i < d->memory.ranges.count; i++) {
        const struct pager_range *r = d->memory.ranges.at[i].what;
        if (!r->freed)
            touches[n++] = (struct ulms_engine_touch){r->start, r->bytes, ULMS_TOUCH_UPDATE};
    }
    uint64_t serial = ulms_engine_issued(d->engine.core, 0, touches, n);
    free(touches);
    return serial;
}

static void begin(struct pager *d) {
    struct pager_refit *r = &d->phase.refit;
    r->all_come = true;
    pager_all_come(d);
    r->serial = touch_all(d);
    r->ticket = r->serial ? pager_window_issue(&d->window, r->serial) : 0;
    if (r->serial && !r->ticket)
        ulms_engine_retired(d->engine.core, r->serial, 0);
    r->begun = r->ticket || d->memory.ranges.count == 0;
    pager_wake(d);
}

static void end(struct pager *d) {
    struct pager_refit *r = &d->phase.refit, was = *r;
    *r = (struct pager_refit){0};
    pager_all_come(d);
    if (was.begun) {
        pager_retired(d, was.ticket);
        pager_wake(d);
    }
}

void pager_refit_again(struct pager *d) {
    if (d->phase.refit.begun)
        end(d);
}

/* Something came lately. */
static bool comes(struct pager_refit *r, uint64_t missing) {
    uint64_t now = clock_ns();
    if (!r->fewer_ns || missing < r->missing)
        r->fewer_ns = now;
    r->missing = missing;
    return now < r->fewer_ns + FEWER_NS;
}

/* Whether all of it is there; *gives_up: some of it cannot come. An operation that is admitted without its pages would
 * count as what brings them. */
static bool is_there(struct pager *d, bool *gives_up) {
    struct pager_refit *r = &d->phase.refit;
    uint64_t wait, missing = r->serial && !r->admitted ? ulms_engine_missing(d->engine.core, r->serial) : 0;
    if (missing) {
        *gives_up = !comes(r, missing);
        return false;
    }
    r->admitted = r->admitted || !r->serial || ulms_engine_admit(d->engine.core, r->serial, 0, &wait) == ULMS_RUN;
    return r->admitted && !d->moves.under_way && !d->admission.waiters.first && d->moves.paused == 0;
}

uint64_t pager_refit(struct pager *d) {
    struct pager_refit *r = &d->phase.refit;
    uint64_t now = clock_ns();
    bool gives_up = false;
    if (!fits(d)) {
        end(d);
        return UINT64_MAX;
    }
    r->since_ns = r->since_ns ? r->since_ns : now;
    if (now < r->since_ns + SETTLED_NS)
        return r->since_ns + SETTLED_NS;
    if (!r->begun)
        begin(d);
    if (r->begun && is_there(d, &gives_up) && pager_stop_moving(d)) {
        end(d);
        log_info("device %d: everything fits again: pages stay where they are", d->ordinal);
        return UINT64_MAX;
    }
    if (gives_up || !r->begun) {
        end(d);
        r->since_ns = now + LATER_NS;
    }
    return now + LOOK_NS;
}
