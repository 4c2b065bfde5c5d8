/* From moving pages back to where everything fits. One operation of ours stands for all memory: once it is admitted
 * every page is on the device, and while it runs none leaves. */
#include <stdlib.h>

#include "backend/pager/pager.h"
#include "base/log.h"

/* So long it must have fit: to begin again waits for all that was issued meanwhile. */
#define SETTLED_NS 500000000ull
#define LOOK_NS    2000000ull
/* So small a part of the budget must be left: else the next allocation begins to move pages again. */
enum { SLACK = 16 };

/* What was issued before pages began to move may still run, and is not told to the engine. */
static bool fits(const struct pager *d) {
    uint64_t bytes = d->memory.bytes - d->memory.fixed, budget = d->budget.bytes;
    return d->engine.held && !d->phase.prior.ticket && pager_moves(d) && bytes + budget / SLACK <= budget;
}

static uint64_t read_all(struct pager *d) {
    struct ulms_engine_touch *touches = calloc(d->memory.ranges.count + 1, sizeof *touches);
    if (!touches)
        return 0;
    for (size_t i = 0; i < d->memory.ranges.count; i++) {
        const struct pager_range *r = d->memory.ranges.at[i].range;
        touches[i] = (struct ulms_engine_touch){r->start, r->bytes, ULMS_TOUCH_READ};
    }
    uint64_t serial = ulms_engine_issued(d->engine.core, 0, touches, d->memory.ranges.count);
    free(touches);
    return serial;
}

static void begin(struct pager *d) {
    struct pager_refit *r = &d->phase.refit;
    ulms_engine_in_place(d->engine.core, ULMS_IN_PLACE_NOTHING);
    r->serial = read_all(d);
    r->ticket = r->serial ? pager_window_issue(&d->window, r->serial) : 0;
    if (r->serial && !r->ticket)
        ulms_engine_retired(d->engine.core, r->serial, 0);
    r->begun = r->ticket || d->memory.ranges.count == 0;
    pager_wake(d);
}

static void end(struct pager *d) {
    struct pager_refit *r = &d->phase.refit;
    if (r->begun) {
        pager_retired(d, r->ticket);
        ulms_engine_in_place(d->engine.core, ULMS_IN_PLACE_ALL);
    }
    *r = (struct pager_refit){0};
}

void pager_refit_again(struct pager *d) {
    if (d->phase.refit.begun)
        end(d);
}

/* Whether all of it is there; *gives_up: some of it cannot come. */
static bool is_there(struct pager *d, bool *gives_up) {
    struct pager_refit *r = &d->phase.refit;
    uint64_t wait;
    int answer = r->admitted || !r->serial ? ULMS_RUN : ulms_engine_admit(d->engine.core, r->serial, 0, &wait);
    r->admitted = answer == ULMS_RUN;
    *gives_up = answer == ULMS_RUN_SHORT;
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
    if (gives_up || !r->begun)
        end(d); /* and tries again later */
    return now + LOOK_NS;
}
