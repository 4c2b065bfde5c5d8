#include "engine/plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/heap.h"
#include "engine/occupancy.h"

enum { NONE = UINT32_MAX };

struct period *period_new(uint32_t operations, uint32_t touches, uint32_t pages) {
    if (!operations || operations > PLAN_OPERATIONS_MAX || !touches || touches > PLAN_TOUCHES_MAX || !pages ||
        pages > touches)
        return NULL;
    struct period *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct period){.operations = operations,
                         .touches = touches,
                         .pages = pages,
                         .first = calloc((size_t)operations + 1, sizeof *p->first),
                         .duration_ns = calloc(operations, sizeof *p->duration_ns),
                         .page = calloc(touches, sizeof *p->page),
                         .does = calloc(touches, sizeof *p->does),
                         .operation = calloc(touches, sizeof *p->operation),
                         .next = calloc(touches, sizeof *p->next),
                         .previous = calloc(touches, sizeof *p->previous)};
    if (p->first && p->duration_ns && p->page && p->does && p->operation && p->next && p->previous)
        return p;
    period_free(p);
    return NULL;
}

void period_free(struct period *p) {
    if (!p)
        return;
    free(p->first);
    free(p->duration_ns);
    free(p->page);
    free(p->does);
    free(p->operation);
    free(p->next);
    free(p->previous);
    free(p);
}

/* Links touches backwards through the period, twice round, so that the last touch of a page finds its first. */
static bool link_touches(struct period *p, uint32_t *later) {
    memset(later, 0xff, p->pages * sizeof *later);
    for (unsigned round = 0; round < 2; round++)
        for (uint32_t i = p->touches; i-- > 0;) {
            p->next[i] = later[p->page[i]];
            later[p->page[i]] = i;
        }
    for (uint32_t i = 0; i < p->touches; i++) {
        if (p->next[i] != i && p->operation[p->next[i]] == p->operation[i])
            return false;
        p->previous[p->next[i]] = i;
    }
    for (uint32_t page = 0; page < p->pages; page++)
        if (later[page] == NONE)
            return false;
    return true;
}

bool period_seal(struct period *p) {
    if (p->first[0] != 0 || p->first[p->operations] != p->touches)
        return false;
    for (uint32_t k = 0; k < p->operations; k++) {
        if (p->first[k] > p->first[k + 1] || p->first[k + 1] > p->touches)
            return false;
        for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++)
            p->operation[i] = k;
    }
    for (uint32_t i = 0; i < p->touches; i++)
        if (p->page[i] >= p->pages)
            return false;
    uint32_t *later = malloc(p->pages * sizeof *later);
    bool good = later && link_touches(p, later);
    free(later);
    return good;
}

uint32_t period_gap(const struct period *p, uint32_t touch) {
    uint32_t from = p->operation[touch], to = p->operation[p->next[touch]];
    return to > from ? to - from : to + p->operations - from;
}

bool plan_open(struct plan *plan, const struct period *period, uint32_t budget) {
    *plan = (struct plan){.period = period,
                          .budget = budget,
                          .away = calloc(period->touches, sizeof *plan->away),
                          .base = calloc(period->operations, sizeof *plan->base)};
    return plan->away && plan->base;
}

void plan_close(struct plan *plan) {
    free(plan->away);
    free(plan->base);
    plan->away = NULL;
    plan->base = NULL;
}

bool plan_leaves(const struct plan *plan, uint32_t touch) {
    return plan->away[touch] || (plan->period->does[touch] & PERIOD_DIES);
}

/* Differences modulo 2^32 first, summed in place. Gaps across the border also hold before its first operation. */
static void count(struct plan *plan) {
    const struct period *p = plan->period;
    uint32_t n = p->operations, held = 0;
    memset(plan->base, 0, n * sizeof *plan->base);
    for (uint32_t i = 0; i < p->touches; i++) {
        uint32_t from = p->operation[i], end = from + (plan_leaves(plan, i) ? 1 : period_gap(p, i));
        plan->base[from]++;
        if (end < n)
            plan->base[end]--;
        else if (end > n) {
            plan->base[0]++;
            plan->base[end - n]--;
        }
    }
    for (uint32_t k = 0; k < n; k++)
        plan->base[k] = held += plan->base[k];
}

/* Of equal ends the smallest touch goes first, so that neighbours leave together. */
static void offer(struct heap *farthest, uint32_t end, uint32_t touch) {
    heap_push(farthest, UINT64_MAX - end, touch);
}

static uint32_t relative(const struct period *p, uint32_t touch, uint32_t start) {
    uint32_t k = p->operation[touch];
    return k >= start ? k - start : k + p->operations - start;
}

/* The sweep's place: pages that are away at it were counted in base. */
struct sweep {
    struct heap farthest; /* gaps open here, by the place of their end */
    int64_t *change;      /* [operations] of `gone`, when the sweep comes there */
    int64_t gone;
};

/* A gap that has not begun here is the image of one that is open across the border: it began in the round before, and
 * once it is away it is so in this round's end too. */
static bool send_away(struct plan *plan, struct sweep *s, uint32_t place, uint32_t start) {
    const struct period *p = plan->period;
    while (s->farthest.count) {
        struct heap_entry e = heap_pop(&s->farthest);
        uint64_t end = UINT64_MAX - e.key;
        if (plan->away[e.item] || end <= place)
            continue;
        uint32_t began = relative(p, e.item, start);
        plan->away[e.item] = 1;
        s->gone++;
        if (end < p->operations)
            s->change[end]--;
        if (began >= place && began + 1 < p->operations)
            s->change[began + 1]++;
        return true;
    }
    return false;
}

static bool sweep(struct plan *plan, struct sweep *s, uint32_t start) {
    const struct period *p = plan->period;
    uint32_t n = p->operations;
    for (uint32_t i = 0; i < p->touches; i++) {
        uint32_t from = relative(p, i, start), end = relative(p, p->next[i], start);
        if (!(p->does[i] & PERIOD_DIES) && end <= from)
            offer(&s->farthest, end, i);
    }
    for (uint32_t place = 0, k = start; place < n; place++, k = k + 1 < n ? k + 1 : 0) {
        uint32_t before = k ? k - 1 : n - 1;
        for (uint32_t i = p->first[before]; place && i < p->first[before + 1]; i++)
            if (!plan_leaves(plan, i))
                offer(&s->farthest, place - 1 + period_gap(p, i), i);
        s->gone += s->change[place];
        while (plan->base[k] - s->gone > plan->budget)
            if (!send_away(plan, s, place, start))
                return false;
    }
    return true;
}

static enum plan_result choose(struct plan *plan, uint32_t start) {
    struct sweep s = {.change = calloc(plan->period->operations, sizeof *s.change)};
    enum plan_result result = PLAN_NO_MEMORY;
    if (heap_open(&s.farthest, 2 * (size_t)plan->period->touches) && s.change)
        result = sweep(plan, &s, start) ? PLAN_MADE : PLAN_TOO_SMALL;
    heap_close(&s.farthest);
    free(s.change);
    return result;
}

static enum plan_result prune(struct plan *plan) {
    const struct period *p = plan->period;
    struct occupancy held = {0};
    struct heap shortest = {0};
    enum plan_result result = PLAN_NO_MEMORY;
    if (occupancy_open(&held, p->operations, plan->base) && heap_open(&shortest, p->touches)) {
        for (uint32_t i = 0; i < p->touches; i++)
            if (plan->away[i])
                heap_push(&shortest, period_gap(p, i), i);
        while (shortest.count) {
            struct heap_entry e = heap_pop(&shortest);
            uint64_t first = (uint64_t)p->operation[e.item] + 1, end = first + e.key - 1;
            if (occupancy_full(&held, first, end, plan->budget) < end)
                continue;
            occupancy_take(&held, first, end);
            plan->away[e.item] = 0;
        }
        result = PLAN_MADE;
    }
    occupancy_close(&held);
    heap_close(&shortest);
    return result;
}

void plan_keep_all(struct plan *plan) {
    memset(plan->away, 0, plan->period->touches);
    count(plan);
}

enum plan_result plan_choose(struct plan *plan, uint32_t start) {
    plan_keep_all(plan);
    enum plan_result result = choose(plan, start % plan->period->operations);
    if (result != PLAN_MADE)
        return result;
    count(plan);
    result = prune(plan);
    count(plan);
    return result;
}
