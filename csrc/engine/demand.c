/* Who comes: the absent pages whose next touch is known. Those of waiting operations are counted by operation, the
 * predicted ones by position. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static void add(struct demand *d, uint64_t position, int n) {
    for (size_t i = (position & (d->capacity - 1)) + 1; i <= d->capacity; i += i & -i)
        d->tree[i] += (uint32_t)n;
    d->total += (uint64_t)n;
}

static struct demand *predicted(struct ulms_engine *e, const struct page *p) {
    return p->demand == DEMAND_PLACE ? &e->places : p->demand == DEMAND_BYTES ? &e->bytes : &e->resting;
}

void demand_enter(struct ulms_engine *e, const struct page *p) {
    struct demand *d = predicted(e, p);
    add(d, p->next, 1);
    if (d->total == 1 || p->next < d->first)
        d->first = p->next;
}

void demand_unset(struct ulms_engine *e, struct page *p) {
    if (p->demand == DEMAND_WAITING)
        p->waiter->wanted--;
    else if (p->epoch == e->track.epoch) {
        struct demand *d = predicted(e, p);
        add(d, p->next, -1);
        if (p->next == d->first)
            d->first = 0;
    }
    p->demand = DEMAND_NONE;
}

void demand_settle(struct ulms_engine *e, struct page *p) {
    p->rests = p->in_place && page_streamed(e, p);
    count_page(e, p);
    frames_mark(e, p);
    if (!p->held || p->pins > 0)
        return;
    if (p->rests) {
        if (!p->waiter && p->failures == 0) {
            p->demand = DEMAND_RESTING;
            demand_enter(e, p);
        }
    } else if (p->waiter) {
        if (p->failures < FAILURES_MAX) {
            p->demand = DEMAND_WAITING;
            p->waiter->wanted++;
            p->waiter->cursor = 0;
        }
    } else if (p->failures == 0 && page_time(e, p) != TIME_UNKNOWN) {
        p->demand = p->live ? DEMAND_BYTES : DEMAND_PLACE;
        demand_enter(e, p);
    }
}

/* The sum of the first n places of the tree. */
static uint64_t sum(const struct demand *d, size_t n) {
    uint64_t total = 0;
    for (; n > 0; n -= n & -n)
        total += d->tree[n];
    return total;
}

/* The place that holds the k-th of them. */
static size_t find(const struct demand *d, uint64_t k) {
    size_t at = 0;
    for (size_t step = d->capacity / 2; step > 0; step /= 2) {
        uint64_t n = d->tree[at + step];
        at += n < k ? step : 0;
        k -= n < k ? n : 0;
    }
    return at;
}

uint64_t demand_waiting(const struct ulms_engine *e, uint64_t k) {
    for (const struct operation *op = e->waiting.first; op; op = op->after) {
        if (k <= op->wanted)
            return op->id.id;
        k -= op->wanted;
    }
    return TIME_UNKNOWN;
}

uint64_t demand_predicted(const struct ulms_engine *e, struct demand *d, uint64_t k) {
    if (k > d->total)
        return TIME_UNKNOWN;
    if (k == 1 && d->first)
        return TIME_PREDICTED + d->first;
    uint64_t start = e->track.position + 1; /* the ring begins here */
    size_t first = start & (d->capacity - 1);
    uint64_t nth = k + sum(d, first);
    if (nth > d->total)
        nth -= d->total;
    uint64_t position = start + ((find(d, nth) - first) & (d->capacity - 1));
    if (k == 1)
        d->first = position;
    return TIME_PREDICTED + position;
}

void demand_clear(struct demand *d) {
    if (d->total > 0)
        memset(d->tree, 0, (d->capacity + 1) * sizeof(*d->tree));
    d->total = d->first = 0;
}

bool demand_open(struct demand *d, size_t capacity) {
    *d = (struct demand){.tree = calloc(capacity + 1, sizeof(*d->tree)), .capacity = capacity};
    return d->tree != NULL;
}
