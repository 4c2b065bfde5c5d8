/* The engine, and the events of memory. */
#include <stdlib.h>

#include "engine/engine.h"

enum { PAGE_BYTES_LEAST = 16 };

/* --- the engine --- */

struct ulms_engine *ulms_engine_new(const struct ulms_engine_settings *settings) {
    uint64_t page = settings->page_bytes;
    const struct policy *policy = policy_find(settings->policy);
    if (!policy || page < PAGE_BYTES_LEAST || (page & (page - 1)) != 0)
        return NULL;
    struct ulms_engine *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    if (!registry_open(&e->operations) || !registry_open(&e->moves)) {
        ulms_engine_free(e);
        return NULL;
    }
    e->policy = policy;
    e->shift = (unsigned)__builtin_ctzll(page);
    e->run_pages = settings->run_bytes > page ? settings->run_bytes / page : 1;
    e->shed_pages = larger(settings->shed_bytes / page, e->run_pages);
    e->near_pages = settings->ahead_bytes > page ? settings->ahead_bytes / page : 1;
    e->keeps = settings->keeps;
    e->faults = settings->faults;
    e->track.epoch = 1;
    depth_open(e);
    ulms_engine_budget(e, settings->budget);
    ulms_engine_in_place(e, settings->in_place);
    return e;
}

static void moves_free(struct move *m) {
    for (struct move *next; m; m = next) {
        next = m->after;
        free(m);
    }
}

void ulms_engine_free(struct ulms_engine *e) {
    if (!e)
        return;
    struct registered *one;
    while ((one = registry_pop(&e->operations)))
        operation_free((struct operation *)one);
    for (struct operation *op = e->unused, *next; op; op = next) {
        next = op->after;
        operation_free(op);
    }
    while ((one = registry_pop(&e->moves)))
        free(one);
    moves_free(e->spare);
    moves_free(e->lane.first);
    free(e->operations.slots);
    free(e->moves.slots);
    page_table_free(&e->table);
    free(e->places.sums);
    free(e->bytes.sums);
    free(e->resting.sums);
    free(e->peaks.most);
    history_free(&e->history);
    free(e);
}

void ulms_engine_budget(struct ulms_engine *e, uint64_t bytes) {
    e->budget_bytes = bytes;
    e->budget = bytes >> e->shift;
}

void ulms_engine_in_place(struct ulms_engine *e, uint32_t in_place) {
    if (in_place != e->in_place) {
        e->in_place = in_place;
        sequence_renew(e);
    }
}

void ulms_engine_eager(struct ulms_engine *e, int eager) {
    e->depth.eager = eager;
}

void ulms_engine_stats(const struct ulms_engine *e, struct ulms_engine_stats *out) {
    *out = e->stats;
    out->resident_bytes = bytes_of(e, e->used - e->filling - e->evicting);
    out->budget_bytes = e->budget_bytes;
}

void ulms_engine_holder(struct ulms_engine *e, ulms_holder holder, void *data) {
    e->holder = holder;
    e->holder_data = data;
}

/* --- memory --- */

int ulms_engine_allocated(struct ulms_engine *e, uint64_t start, uint64_t bytes) {
    uint64_t first = start >> e->shift, count = bytes >> e->shift;
    if (count == 0 || bytes_of(e, first) != start || bytes_of(e, count) != bytes || start + (bytes - 1) < start)
        return 0;
    if (!page_make(&e->table, first, count))
        return 0;
    for (uint64_t i = 0; i < count; i++) {
        struct page *p = page_find(&e->table, first + i);
        if (p->allocated)
            continue;
        p->allocated = true;
        e->pages++;
        settle(e, p);
    }
    return 1;
}

static void page_dies(struct ulms_engine *e, struct page *p) {
    p->died = p->live ? e->serial : p->died;
    p->live = p->dirty = false;
}

static void page_freed(struct ulms_engine *e, struct page *p) {
    unsettle(e, p);
    e->pages--;
    e->used -= p->state != PAGE_ABSENT;
    e->filling -= p->state == PAGE_FILLING;
    e->evicting -= p->state == PAGE_EVICTING;
    e->window_pages -= p->window > 0;
    if (p->untouched)
        e->stats.useless_bytes += bytes_of(e, 1);
    p->generation++;
    p->waiter = NULL;
    p->touched = p->move = 0;
    p->pins = p->blocks = p->window = 0;
    p->state = PAGE_ABSENT;
    p->failures = 0;
    set_untouched(e, p, false);
    p->allocated = false;
    page_dies(e, p);
    set_lying(e, p, false);
    settle(e, p);
}

void ulms_engine_freed(struct ulms_engine *e, uint64_t start, uint64_t bytes) {
    if (bytes == 0)
        return;
    uint64_t at, last;
    span(e, start, bytes, &at, &last);
    for (struct page *p; (p = page_walk(&e->table, &at, last));)
        page_freed(e, p);
}

void ulms_engine_placed(struct ulms_engine *e, uint64_t start, uint64_t bytes) {
    if (bytes == 0)
        return;
    uint64_t at, last;
    span(e, start, bytes, &at, &last);
    for (struct page *p; (p = page_walk(&e->table, &at, last));) {
        if (p->state != PAGE_ABSENT)
            continue;
        unsettle(e, p);
        p->state = PAGE_RESIDENT;
        set_lying(e, p, false);
        e->used++;
        settle(e, p);
    }
}

void ulms_engine_block(struct ulms_engine *e, uint64_t start, uint64_t bytes, int live) {
    if (bytes == 0)
        return;
    uint64_t at, last;
    span(e, start, bytes, &at, &last);
    for (struct page *p; (p = page_walk(&e->table, &at, last));) {
        if (live)
            p->blocks++;
        else if (p->blocks > 0 && --p->blocks == 0) {
            unsettle(e, p);
            page_dies(e, p);
            settle(e, p);
        }
    }
}
