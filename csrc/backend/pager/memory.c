/* The memory whose pages move. While all of it fits, it is brought to the device once and that is all; the first
 * allocation too many makes the engine rule over all that is there. */

#include <stdlib.h>

#include "backend/pager/call_scope.h"

void pager_memory_fix(struct pager *d, int64_t bytes) {
    d->memory.fixed += (uint64_t)bytes;
}

void pager_memory_set_aside(struct pager *d, int64_t bytes) {
    d->memory.aside += (uint64_t)bytes;
}

void pager_make_room(struct pager *d, uint64_t bytes) {
    if (!pager_moves(d) && clock_ns() - d->budget.looked_ns > PAGER_LOOK_NS)
        pager_budget_look(d);
    else
        pager_budget_update(d);
    if (pager_all_fits(d) && !pager_fits(d, bytes))
        pager_start_moving(d, bytes);
}

bool pager_crowded(int32_t device, uint64_t bytes) {
    struct pager *d = pager_at(device);
    if (!d)
        return false;
    pager_lock(d);
    bool crowded = pager_all_fits(d) && !pager_fits(d, bytes);
    pager_unlock(d);
    return crowded;
}

void pager_plain(int32_t device) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    pager_lock(d);
    if (d->memory.bytes > 0)
        pager_make_room(d, 0);
    pager_unlock(d);
}

void pager_coming(int32_t device, int64_t bytes) {
    struct pager *d = pager_at(device);
    if (d)
        pager_budget_comes(d, bytes);
}

void pager_arrived(addr_t start, uint64_t bytes, int32_t device, uint64_t aside) {
    pager_returned(); /* room is made for it */
    struct pager *d = pager_of(device);
    if (!d)
        return;
    pager_lock(d);
    pager_blocks_hear(d); /* of what was there before */
    pager_memory_set_aside(d, -(int64_t)aside);
    pager_make_room(d, bytes);
    pager_refit_again(d);
    struct pager_range *range = pager_range_add(&d->memory.ranges, start, bytes);
    bool known = range != NULL;
    if (known)
        pager_range_inherit_advice(&d->memory.still_advised, range);
    if (known && !ulms_engine_allocated(d->engine.core, start, bytes)) {
        free(pager_range_take(&d->memory.ranges, start));
        known = false;
    }
    pager_memory_set_aside(d, known ? 0 : (int64_t)aside);
    d->memory.bytes += known ? bytes : 0;
    bool fits = known && pager_all_fits(d);
    if (known && d->kind->arrives)
        d->kind->arrives(d, start, bytes, fits);
    pager_unlock(d);
    if (known && d->kind->place)
        d->kind->place(d, start, bytes, fits);
}

void pager_freeing(addr_t start, uint64_t bytes) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_blocks_hear(d);
        struct pager_range *range = pager_range_take(&d->memory.ranges, start);
        if (range) {
            d->memory.bytes -= range->freed ? 0 : range->bytes;
            ulms_engine_freed(d->engine.core, start, range->bytes);
            pager_progressed(d);
            pager_wake(d);
            pager_moves_wait(d, start, bytes, false);
            pager_range_remember_advice(&d->memory.still_advised, range);
        }
        pager_unlock(d);
    }
}

/* Until it leaves it keeps its places, unless others need them: its pages are the first to leave. */
static void die(struct pager *d, struct pager_range *r) {
    pager_pages_died(&d->memory.ranges, r->start, r->start + r->bytes, 1);
    ulms_engine_block(d->engine.core, r->start, r->bytes, true); /* where there never was a block none can end */
    ulms_engine_block(d->engine.core, r->start, r->bytes, false);
    pager_wake(d);
}

bool pager_free_deferred(addr_t start, uint64_t bytes, bool unused) {
    bool heard = true;
    (void)bytes;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_blocks_hear(d);
        struct pager_range *r = pager_range_at(&d->memory.ranges, start);
        if (r) {
            d->memory.bytes -= r->freed || !unused ? 0 : r->bytes; /* until then it holds its place */
            r->freed = r->freed || unused;
            heard = unused && !pager_all_fits(d); /* what begins to move was all used just before */
            if (heard)
                die(d, r);
        }
        pager_unlock(d);
    }
    return heard;
}
