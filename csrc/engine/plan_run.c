#include "engine/plan_run.h"

#include <stdlib.h>

enum {
    FRESH_AHEAD =
        4, /* operations ahead for which a dead page gets its frame: it takes time before the place is there */
    FREE_FRAMES = 16 /* with so many free ones nobody leaves without bytes: touched again in time, it need not move */
};

enum { ABSENT, COMING, RESIDENT, QUEUED, LEAVING };

static const struct mover_step nothing = {PAGE_NONE, false};

/* --- queues: a page is in one at most --- */

static void append(struct plan_run *r, struct plan_queue *q, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    p->before = q->last;
    p->after = PAGE_NONE;
    *(q->last == PAGE_NONE ? &q->first : &r->pages[q->last].after) = page;
    q->last = page;
}

static void take_out(struct plan_run *r, struct plan_queue *q, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    *(p->before == PAGE_NONE ? &q->first : &r->pages[p->before].after) = p->after;
    *(p->after == PAGE_NONE ? &q->last : &r->pages[p->after].before) = p->before;
}

static struct plan_queue *way_out(struct plan_run *r, const struct plan_page *p) {
    return p->host || p->dead ? &r->bare : &r->laden;
}

static void queue_out(struct plan_run *r, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    p->state = QUEUED;
    append(r, way_out(r, p), page);
}

static void stay(struct plan_run *r, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    take_out(r, way_out(r, p), page);
    p->state = RESIDENT;
}

/* --- operations --- */

static bool gap_leaves(const struct plan_run *r, uint32_t touch) {
    return plan_leaves(r->plan, touch) && period_gap(r->plan->period, touch) > 1;
}

/* Its place from now to its next touch is counted in base: it may come at any time. */
static bool is_kept(const struct plan_run *r, const struct plan_page *p) {
    return !plan_leaves(r->plan, r->plan->period->previous[p->touch]);
}

static void want(struct plan_run *r, uint32_t page) {
    heap_push(&r->wanted, r->pages[page].need, page);
}

static void offer_fresh(struct plan_run *r, uint32_t page) {
    heap_push(&r->fresh, r->pages[page].need, page);
}

static bool is_wanted(const struct plan_run *r, struct heap_entry e) {
    const struct plan_page *p = &r->pages[e.item];
    return p->need == e.key && !p->dead && (p->state == ABSENT || p->state == QUEUED || p->state == LEAVING);
}

static bool is_fresh(const struct plan_run *r, struct heap_entry e) {
    const struct plan_page *p = &r->pages[e.item];
    return p->need == e.key && p->dead && p->state == ABSENT;
}

/* What is stale goes when it comes first, so that there are never more than one a touch and those of one operation. */
static void drop_stale(struct plan_run *r) {
    while (r->wanted.count && !is_wanted(r, r->wanted.entries[0]))
        heap_pop(&r->wanted);
    while (r->fresh.count && !is_fresh(r, r->fresh.entries[0]))
        heap_pop(&r->fresh);
}

static void wait_for_pages(struct plan_run *r) {
    const struct period *p = r->plan->period;
    uint32_t k = (uint32_t)(r->operation % p->operations);
    r->missing = 0;
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++) {
        struct plan_page *one = &r->pages[p->page[i]];
        if (one->state == QUEUED)
            stay(r, p->page[i]);
        r->missing += one->state != RESIDENT;
    }
    drop_stale(r);
}

bool plan_run_ready(const struct plan_run *r, uint64_t operation) {
    const struct period *p = r->plan->period;
    if (operation == r->operation)
        return !r->missing;
    uint32_t k = (uint32_t)(operation % p->operations);
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++) {
        const struct plan_page *one = &r->pages[p->page[i]];
        if (one->state != RESIDENT)
            return false;
        uint32_t touch = one->touch;
        for (uint64_t at = one->need; at < operation; touch = p->next[touch]) {
            if (gap_leaves(r, touch))
                return false;
            at += period_gap(p, touch);
        }
    }
    return true;
}

void plan_run_admitted(struct plan_run *r, uint64_t operation) {
    const struct period *p = r->plan->period;
    uint32_t k = (uint32_t)(operation % p->operations);
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++)
        r->pages[p->page[i]].dead = false;
}

void plan_run_retired(struct plan_run *r) {
    const struct period *p = r->plan->period;
    uint32_t k = (uint32_t)(r->operation % p->operations);
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++) {
        uint32_t page = p->page[i];
        struct plan_page *one = &r->pages[page];
        if (p->does[i] & PERIOD_WRITES)
            one->host = false;
        one->need = r->operation + period_gap(p, i);
        one->touch = p->next[i];
        if (!gap_leaves(r, i))
            continue;
        queue_out(r, page);
        want(r, page);
    }
    occupancy_set(&r->occupancy, r->operation, r->plan->base[k]);
    r->operation++;
    wait_for_pages(r);
}

void plan_run_died(struct plan_run *r, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    if (p->dead)
        return;
    if (p->state == QUEUED)
        take_out(r, way_out(r, p), page);
    p->dead = true;
    p->host = false;
    if (p->state == QUEUED)
        queue_out(r, page);
    if (p->state == ABSENT)
        offer_fresh(r, page);
}

/* --- moves --- */

struct mover_step plan_run_out(struct plan_run *r, bool bytes) {
    struct plan_queue *q = r->bare.first != PAGE_NONE && r->frames < FREE_FRAMES ? &r->bare : &r->laden;
    uint32_t page = q->first;
    if (page == PAGE_NONE || (q == &r->laden && !bytes))
        return nothing;
    take_out(r, q, page);
    r->pages[page].state = LEAVING;
    return (struct mover_step){page, q == &r->laden};
}

void plan_run_left(struct plan_run *r, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    p->state = ABSENT;
    p->host = !p->dead;
    r->frames++;
    if (p->dead)
        offer_fresh(r, page);
}

static struct mover_step come(struct plan_run *r, uint32_t page, bool bytes) {
    r->pages[page].state = COMING;
    r->frames--;
    return (struct mover_step){page, bytes};
}

/* Planned occupancy leaves room for the page from now to its next touch. */
static bool has_room(struct plan_run *r, const struct plan_page *p) {
    if (r->operation <= r->blocked && r->blocked < p->need)
        return false;
    uint64_t full = occupancy_full(&r->occupancy, r->operation, p->need, r->plan->budget);
    if (full < p->need)
        r->blocked = full;
    return full == p->need;
}

/* The page needed first, or none: no other overtakes it. One that is still queued to leave just stays. */
static struct mover_step come_wanted(struct plan_run *r, bool bytes) {
    for (;; heap_pop(&r->wanted)) {
        drop_stale(r);
        if (!r->wanted.count)
            return nothing;
        uint32_t page = r->wanted.entries[0].item;
        struct plan_page *p = &r->pages[page];
        bool counted = is_kept(r, p);
        if (p->state == LEAVING || (p->state == ABSENT && (!bytes || r->frames <= 0)) || (!counted && !has_room(r, p)))
            return nothing;
        if (!counted)
            occupancy_take(&r->occupancy, r->operation, p->need);
        if (p->state == ABSENT) {
            heap_pop(&r->wanted);
            return come(r, page, true);
        }
        stay(r, page);
    }
}

/* No bytes, so no lane to wait for: those of operations until `last`, where there is room. */
static struct mover_step come_fresh(struct plan_run *r, uint64_t last) {
    drop_stale(r);
    if (!r->fresh.count || r->fresh.entries[0].key > last || r->frames <= 0)
        return nothing;
    uint32_t page = r->fresh.entries[0].item;
    struct plan_page *p = &r->pages[page];
    bool counted = is_kept(r, p);
    if (!counted && !has_room(r, p))
        return nothing;
    if (!counted)
        occupancy_take(&r->occupancy, r->operation, p->need);
    heap_pop(&r->fresh);
    return come(r, page, false);
}

/* What the waiting operation needs comes before what others do, and bytes before places. */
struct mover_step plan_run_in(struct plan_run *r, bool bytes) {
    struct mover_step step = come_fresh(r, r->operation);
    if (step.page == PAGE_NONE)
        step = come_wanted(r, bytes);
    return step.page == PAGE_NONE ? come_fresh(r, r->operation + FRESH_AHEAD) : step;
}

void plan_run_came(struct plan_run *r, uint32_t page) {
    struct plan_page *p = &r->pages[page];
    p->state = RESIDENT;
    r->missing -= p->need == r->operation;
}

/* --- the start --- */

/* Each page's next touch at or after the operation. */
static void find_needs(struct plan_run *r) {
    const struct period *p = r->plan->period;
    uint32_t n = p->operations, start = (uint32_t)(r->operation % n);
    for (uint32_t i = 0; i < p->touches; i++) {
        uint32_t k = p->operation[i], to = k >= start ? k - start : k + n - start;
        struct plan_page *one = &r->pages[p->page[i]];
        if (one->touch != PAGE_NONE && one->need <= r->operation + to)
            continue;
        one->need = r->operation + to;
        one->touch = i;
    }
}

bool plan_run_open(struct plan_run *r, const struct plan *plan, uint64_t operation, const uint8_t *pages) {
    const struct period *p = plan->period;
    static const struct plan_queue empty = {PAGE_NONE, PAGE_NONE};
    *r = (struct plan_run){.plan = plan,
                           .pages = calloc(p->pages, sizeof *r->pages),
                           .bare = empty,
                           .laden = empty,
                           .operation = operation,
                           .blocked = UINT64_MAX,
                           .frames = plan->budget};
    if (!r->pages || !occupancy_open(&r->occupancy, p->operations, plan->base) ||
        !heap_open(&r->wanted, (size_t)p->touches + p->pages) || !heap_open(&r->fresh, (size_t)p->touches + p->pages))
        return false;
    for (uint32_t page = 0; page < p->pages; page++)
        r->pages[page].touch = PAGE_NONE;
    find_needs(r);
    for (uint32_t page = 0; page < p->pages; page++) {
        struct plan_page *one = &r->pages[page];
        bool dead = p->does[p->previous[one->touch]] & PERIOD_DIES;
        uint8_t is = pages ? pages[page] : dead ? PLAN_DEAD : PLAN_HOST;
        one->dead = is & PLAN_DEAD;
        one->host = !one->dead && (is & PLAN_HOST);
        one->state = is & PLAN_RESIDENT ? RESIDENT : ABSENT;
        r->frames -= one->state == RESIDENT;
        if (one->state == RESIDENT && !is_kept(r, one))
            queue_out(r, page);
        if (one->state != RESIDENT)
            want(r, page);
        if (one->state == ABSENT && one->dead)
            offer_fresh(r, page);
    }
    wait_for_pages(r);
    return true;
}

void plan_run_close(struct plan_run *r) {
    free(r->pages);
    r->pages = NULL;
    occupancy_close(&r->occupancy);
    heap_close(&r->wanted);
    heap_close(&r->fresh);
}

bool plan_run_check(const struct plan_run *r) {
    const struct period *p = r->plan->period;
    int64_t used = 0, leaving = 0, wrong = 0;
    uint32_t missing = 0;
    for (uint32_t page = 0; page < p->pages; page++) {
        const struct plan_page *one = &r->pages[page];
        used += one->state != ABSENT;
        leaving += one->state == QUEUED || one->state == LEAVING;
        missing += one->state != RESIDENT && one->need == r->operation;
        wrong += one->need < r->operation || one->need > r->operation + p->operations;
        wrong += one->state == ABSENT && !one->host && !one->dead;
    }
    for (uint32_t k = 0; k < p->operations; k++)
        wrong += occupancy_at(&r->occupancy, k) > r->plan->budget;
    wrong += used - leaving > occupancy_at(&r->occupancy, r->operation);
    return !wrong && used == r->plan->budget - r->frames && missing == r->missing &&
           r->wanted.count <= (size_t)p->touches + p->pages && r->fresh.count <= (size_t)p->touches + p->pages;
}
