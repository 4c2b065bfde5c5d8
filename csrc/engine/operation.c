/* The life of an operation: issued, admitted, retired. */
#include <stdlib.h>

#include "engine/engine.h"

void queue_append(struct queue *q, struct operation *op) {
    op->before = q->last;
    op->after = NULL;
    *(q->last ? &q->last->after : &q->first) = op;
    q->last = op;
}

void queue_remove(struct queue *q, struct operation *op) {
    *(op->before ? &op->before->after : &q->first) = op->after;
    *(op->after ? &op->after->before : &q->last) = op->before;
}

void operation_free(struct operation *op) {
    if (op)
        free(op->entries);
    free(op);
}

static struct operation *operation_new(struct ulms_engine *e) {
    struct operation *op = e->unused;
    if (op) {
        e->unused = op->after;
        *op = (struct operation){.entries = op->entries, .capacity = op->capacity};
        return op;
    }
    return calloc(1, sizeof(*op));
}

static void operation_release(struct ulms_engine *e, struct operation *op) {
    op->after = e->unused;
    e->unused = op;
}

/* The page's entry: one that is new where no touch before had it. NULL: no memory. */
static inline struct entry *entry_of(struct operation *op, struct page *p) {
    if (p->entry < op->count && op->entries[p->entry].page == p)
        return &op->entries[p->entry];
    if (op->count == op->capacity) {
        size_t capacity = op->capacity ? 2 * op->capacity : 16;
        struct entry *entries = realloc(op->entries, capacity * sizeof(*entries));
        if (!entries)
            return NULL;
        op->entries = entries;
        op->capacity = capacity;
    }
    struct entry *x = &op->entries[op->count];
    *x = (struct entry){.page = p, .generation = p->generation};
    p->entry = (uint32_t)op->count++;
    return x;
}

static bool gather_touch(struct ulms_engine *e, struct operation *op, const struct ulms_engine_touch *t) {
    if (t->bytes == 0)
        return true;
    uint64_t at, last;
    span(e, t->start, t->bytes, &at, &last);
    uint64_t end = t->start + (t->bytes - 1);
    bool much = t->mode != (ULMS_TOUCH_READ | ULMS_TOUCH_SPARSE), fades = t->mode == ULMS_TOUCH_SCRATCH;
    uint8_t does = (uint8_t)(t->mode & DOES_MODES) | (much ? DOES_MUCH : 0);
    for (struct page *p; (p = page_walk(&e->table, &at, last));) {
        struct entry *x = entry_of(op, p);
        if (!x)
            return false;
        uint64_t page = bytes_of(e, p->number);
        bool covers = fades && t->start <= page && end >= page + (bytes_of(e, 1) - 1);
        x->does |= does | (covers ? DOES_FADE : 0);
    }
    return true;
}

/* By page number. Touches come nearly in order; no malloc, which qsort may call. */
static void sort(struct entry *x, size_t n) {
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            struct entry moving = x[i];
            size_t at = i;
            for (; at >= gap && x[at - gap].page->number > moving.page->number; at -= gap)
                x[at] = x[at - gap];
            x[at] = moving;
        }
}

/* False: it touches no page, or there is no memory. hits: how many are resident. */
static bool gather(struct ulms_engine *e, struct operation *op, const struct ulms_engine_touch *touches, size_t n,
                   uint64_t *hits) {
    for (size_t i = 0; i < n; i++)
        if (!gather_touch(e, op, &touches[i]))
            return false;
    bool in_order = true;
    uint64_t before = 0;
    *hits = 0;
    for (struct entry *x = op->entries; x < op->entries + op->count; x++) {
        if ((x->does & DOES_MODES) != ULMS_TOUCH_SCRATCH)
            x->does &= ~DOES_FADE;
        in_order = in_order && before <= x->page->number;
        before = x->page->number;
        *hits += x->page->state == PAGE_RESIDENT;
    }
    if (!in_order)
        sort(op->entries, op->count);
    return op->count > 0;
}

static void wait_for(struct ulms_engine *e, struct page *p, struct operation *op) {
    unsettle(e, p);
    p->waiter = op;
    settle(e, p);
}

bool held_issued(struct ulms_engine *e, struct operation *op) {
    sequence_issued(e, op);
    op->queued = true;
    queue_append(&e->waiting, op);
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        p->touched = op->id.id;
        if (!p->waiter)
            wait_for(e, p, op);
        else {
            unsettle(e, p);
            settle_order(e, p);
        }
    }
    return true;
}

uint64_t ulms_engine_issued(struct ulms_engine *e, uint64_t key, const struct ulms_engine_touch *touches, size_t n) {
    struct operation *op = operation_new(e);
    if (!op)
        return 0;
    op->key = key;
    op->id.id = e->serial + 1;
    uint64_t hits;
    if (!gather(e, op, touches, n, &hits) || !e->policy->kind->issued(e, op)) {
        operation_release(e, op);
        return 0;
    }
    registry_enter(&e->operations, &op->id);
    e->stats.operations++;
    e->stats.touched_bytes += bytes_of(e, op->count);
    e->stats.hit_bytes += bytes_of(e, hits);
    e->stats.short_operations += op->is_short;
    return ++e->serial;
}

/* Pins the page; one that is absent comes by itself where kernels may fault. */
static void run_on(struct ulms_engine *e, const struct entry *x) {
    struct page *p = x->page;
    if (p->state == PAGE_ABSENT && e->faults && !p->in_place) {
        p->state = PAGE_RESIDENT;
        e->used++;
        e->stats.faulted_bytes += bytes_of(e, 1);
    } else if (p->state == PAGE_ABSENT && x->does & DOES_MUCH) {
        e->stats.in_place_bytes += bytes_of(e, 1);
        e->stats.in_place_written_bytes += (x->does & DOES_MODES) != DOES_READ ? bytes_of(e, 1) : 0;
    }
    p->failures = 0;
    p->pins++;
    entry_mark(e, x);
}

/* It waits no more, and may run: its pages belong to the next waiting operation that touches them. */
static void stop_waiting(struct ulms_engine *e, struct operation *op, bool runs) {
    e->overtaken = op != e->waiting.first;
    op->queued = false;
    queue_remove(&e->waiting, op);
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        if (!entry_holds(&op->entries[i]))
            continue;
        unsettle(e, p);
        p->waiter = p->waiter == op ? NULL : p->waiter;
        if (runs)
            run_on(e, &op->entries[i]);
        settle(e, p);
    }
    for (struct operation *other = e->waiting.first; other; other = other->after)
        for (size_t i = 0; i < other->count; i++)
            if (!other->entries[i].page->waiter && entry_holds(&other->entries[i]))
                wait_for(e, other->entries[i].page, other);
    e->running += runs;
}

/* Nothing can change any more for the first waiting operation. */
static bool is_stuck(struct ulms_engine *e, const struct operation *op) {
    bool ends = e->running > 0 && e->used > 0; /* and may let a page go */
    return op == e->waiting.first && e->used >= e->budget && e->moves.count == 0 && !ends &&
           !evict_queue_first(e, op->id.id);
}

static int hold(struct ulms_engine *e, struct operation *op) {
    e->stats.late_operations += !op->late;
    op->late = true;
    return ULMS_HOLD;
}

static bool is_missing(const struct entry *x) {
    return entry_holds(x) && x->page->state != PAGE_RESIDENT && !x->page->rests;
}

uint64_t ulms_engine_missing(const struct ulms_engine *e, uint64_t serial) {
    const struct operation *op = (const struct operation *)registry_find(&e->operations, serial);
    uint64_t missing = 0;
    for (size_t i = 0; op && i < op->count; i++)
        missing += is_missing(&op->entries[i]);
    return bytes_of(e, missing);
}

int held_admit(struct ulms_engine *e, struct operation *op, int at_once, uint64_t *wait) {
    (void)wait; /* it is for nothing but its own admission */
    if (!op->queued)
        return ULMS_RUN;
    if (op->sure > 0 && !at_once && !is_stuck(e, op)) /* what follows would say so too */
        return hold(e, op);
    size_t missing = 0, moving = 0, given_up = 0;
    for (size_t i = 0; i < op->count; i++) {
        const struct page *p = op->entries[i].page;
        if (!is_missing(&op->entries[i]))
            continue;
        missing++;
        moving += p->state != PAGE_ABSENT;
        given_up += p->state == PAGE_ABSENT && p->failures >= FAILURES_MAX;
    }
    op->is_short = missing > 0;
    if (missing > 0 && (moving > 0 || (!at_once && given_up < missing && !is_stuck(e, op))))
        return hold(e, op);
    stop_waiting(e, op, true);
    e->stats.short_operations += op->is_short;
    return op->is_short ? ULMS_RUN_SHORT : ULMS_RUN;
}

int ulms_engine_admit(struct ulms_engine *e, uint64_t serial, int at_once, uint64_t *wait) {
    struct operation *op = (struct operation *)registry_find(&e->operations, serial);
    *wait = 0;
    return op ? e->policy->kind->admit(e, op, at_once, wait) : ULMS_RUN;
}

void held_retired(struct ulms_engine *e, struct operation *op, uint64_t now) {
    if (op->queued) {
        stop_waiting(e, op, false);
        return;
    }
    e->running--;
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        if (!entry_holds(&op->entries[i]))
            continue;
        unsettle(e, p);
        p->pins--;
        settle_order(e, p);
    }
    trial_retired(e, op->id.id, now);
}

void ulms_engine_retired(struct ulms_engine *e, uint64_t serial, uint64_t now) {
    struct operation *op = (struct operation *)registry_take(&e->operations, serial);
    if (!op)
        return;
    e->policy->kind->retired(e, op, now);
    operation_release(e, op);
}
