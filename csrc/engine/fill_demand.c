/* Who comes: the absent pages whose next touch is known. Those of waiting operations are counted by operation, the
 * predicted ones by position. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

enum { LEVEL = 8 };

static void add(struct fill_demand *d, uint64_t position, int n) {
    for (size_t i = d->capacity + (position & (d->capacity - 1)); i > 0; i /= LEVEL)
        d->sums[i] += (uint32_t)n;
    d->total += (uint64_t)n;
}

static struct fill_demand *predicted(struct ulms_engine *e, const struct page *p) {
    return p->demand == DEMAND_PLACE ? &e->places : p->demand == DEMAND_BYTES ? &e->bytes : &e->resting;
}

void fill_demand_enter(struct ulms_engine *e, const struct page *p) {
    struct fill_demand *d = predicted(e, p);
    add(d, p->next, 1);
    if (d->total == 1 || p->next < d->first)
        d->first = p->next;
}

void fill_demand_unset(struct ulms_engine *e, struct page *p) {
    if (p->demand == DEMAND_SURE)
        p->waiter->sure--;
    else if (p->epoch == e->track.epoch)
        add(predicted(e, p), p->next, -1);
    p->demand = DEMAND_NONE;
}

void fill_demand_settle(struct ulms_engine *e, struct page *p) {
    p->rests = p->in_place && page_streamed(e, p);
    count_page(e, p);
    evict_queue_mark(e, p);
    if (!p->allocated || p->pins > 0)
        return;
    if (p->rests) {
        if (!p->waiter && p->failures == 0) {
            p->demand = DEMAND_RESTING;
            fill_demand_enter(e, p);
        }
    } else if (p->waiter) {
        if (p->failures < FAILURES_MAX) {
            p->demand = DEMAND_SURE;
            p->waiter->sure++;
            p->waiter->cursor = 0;
        }
    } else if (p->failures == 0 && page_time(e, p) != TIME_UNKNOWN) {
        p->demand = p->live ? DEMAND_BYTES : DEMAND_PLACE;
        fill_demand_enter(e, p);
    }
}

/* The place that holds the k-th from that place on, round the ring; pre: there is one. */
static size_t demand_find(const struct fill_demand *d, size_t place, uint64_t k) {
    size_t i = d->capacity + place;
    while (d->sums[i] < k) {
        k -= d->sums[i++];
        if ((i & (i - 1)) == 0) /* the last of its level was passed */
            i /= 2;
        while (i % LEVEL == 0)
            i /= LEVEL;
    }
    while (i < d->capacity)
        for (i *= LEVEL; d->sums[i] < k; i++)
            k -= d->sums[i];
    return i - d->capacity;
}

uint64_t fill_demand_sure(const struct ulms_engine *e, uint64_t k) {
    for (const struct operation *op = e->waiting.first; op; op = op->after) {
        if (k <= op->sure)
            return op->id.id;
        k -= op->sure;
    }
    return TIME_UNKNOWN;
}

uint64_t fill_demand_predicted(const struct ulms_engine *e, struct fill_demand *d, uint64_t k) {
    if (k > d->total)
        return TIME_UNKNOWN;
    uint64_t start = e->track.position + 1; /* the ring begins here */
    if (d->first > start)
        start = d->first;
    size_t mask = d->capacity - 1;
    uint64_t position = start + ((demand_find(d, start & mask, k) - start) & mask);
    if (k == 1)
        d->first = position;
    return TIME_PREDICTED + position;
}

void fill_demand_clear(struct fill_demand *d) {
    if (d->total > 0)
        for (size_t width = d->capacity; width > 0; width /= LEVEL)
            memset(d->sums + width, 0, width * sizeof(*d->sums));
    d->total = d->first = 0;
}

bool fill_demand_open(struct fill_demand *d, size_t capacity) {
    *d = (struct fill_demand){.sums = calloc(2 * capacity, sizeof(*d->sums)), .capacity = capacity};
    return d->sums != NULL;
}
