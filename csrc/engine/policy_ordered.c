/* The ordered policies: what an operation needs is decided, and queued, when it is issued. */
#include "engine/engine.h"

static void leave_window(struct ulms_engine *e, struct operation *op) {
    queue_remove(&e->window, op);
    op->queued = false;
    for (size_t i = 0; i < op->count; i++)
        if (entry_holds(&op->entries[i]) && --op->entries[i].page->window == 0)
            e->window_pages--;
}

/* Step 1. Returns the serial of the last operation that left the window. */
static uint64_t enter_window(struct ulms_engine *e, struct operation *op) {
    uint64_t after = 0;
    for (size_t i = 0; i < op->count; i++)
        if (op->entries[i].page->window++ == 0)
            e->window_pages++;
    while (e->window_pages > e->budget && e->window.first) {
        after = e->window.first->id.id;
        leave_window(e, e->window.first);
    }
    queue_append(&e->window, op);
    op->queued = true;
    return after;
}

/* The last move takes the page too, if it is the next one; else a new one. */
static void queue_move(struct ulms_engine *e, struct move **last, const struct page *p, uint32_t kind, uint64_t after) {
    struct move *m = *last;
    uint64_t start = bytes_of(e, p->number);
    if (m && m->out.start + m->out.bytes == start && m->out.after == after &&
        m->out.bytes < bytes_of(e, e->run_pages)) {
        m->out.bytes += bytes_of(e, 1);
        return;
    }
    *last = m = move_new(e);
    m->id.id = ++e->last_move;
    m->out = (struct ulms_move){.id = m->id.id, .start = start, .bytes = bytes_of(e, 1), .after = after, .kind = kind};
    *(e->lane.first ? &e->lane.last->after : &e->lane.first) = m;
    e->lane.last = m;
}

/* Dead or live. NULL: none may leave. */
static struct page *least_recent(struct ulms_engine *e) {
    struct page *dead = evict_queue_first_dead(e, 0), *live = evict_queue_first_live(e, 0);
    if (!dead || !live)
        return dead ? dead : live;
    bool dead_first = dead->touched != live->touched ? dead->touched < live->touched : dead->number < live->number;
    return dead_first ? dead : live;
}

/* One page leaves. False: none may. */
static bool leave(struct ulms_engine *e, const struct operation *op, struct move **last, uint64_t after) {
    struct page *p = least_recent(e);
    if (!p || p->touched == op->id.id)
        return false;
    if (registry_find(&e->operations, p->touched))
        after = larger(after, p->touched);
    queue_move(e, last, p, ULMS_EVICT, after);
    p->state = PAGE_ABSENT;
    p->dirty = false;
    e->used--;
    evict_queue_mark(e, p);
    return true;
}

/* Steps 2 and 3. */
static void make_moves(struct ulms_engine *e, struct operation *op, uint64_t missing, uint64_t want, uint64_t after) {
    uint64_t left = 0, before = e->last_move;
    struct move *evict = NULL, *fill = NULL;
    while (left < want && leave(e, op, &evict, after))
        left++;
    op->is_short = left < want;
    uint64_t frames = left + missing > want ? left + missing - want : 0;
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        if (p->state != PAGE_ABSENT || (frames == 0 && !e->faults))
            continue;
        frames -= frames > 0;
        if (e->policy->fills)
            queue_move(e, &fill, p, ULMS_FILL, after);
        else
            e->stats.faulted_bytes += bytes_of(e, 1);
        p->state = PAGE_RESIDENT;
        e->used++;
        evict_queue_mark(e, p);
    }
    op->wait = e->last_move > before ? e->last_move : 0;
}

static bool issued(struct ulms_engine *e, struct operation *op) {
    uint64_t missing = 0;
    for (size_t i = 0; i < op->count; i++)
        missing += op->entries[i].page->state == PAGE_ABSENT;
    uint64_t want = e->used + missing > e->budget ? e->used + missing - e->budget : 0;
    if (!move_reserve(e, (want < e->used ? want : e->used) + missing))
        return false;
    for (size_t i = 0; i < op->count; i++) { /* so that they are the last to leave */
        op->entries[i].page->touched = op->id.id;
        evict_queue_mark(e, op->entries[i].page);
    }
    uint64_t after = e->policy->fills ? enter_window(e, op) : 0;
    make_moves(e, op, missing, want, after);
    for (size_t i = 0; i < op->count; i++) { /* they are in no count */
        entry_mark(e, &op->entries[i]);
        evict_queue_mark(e, op->entries[i].page);
    }
    return true;
}

static int admit(struct ulms_engine *e, struct operation *op, int at_once, uint64_t *wait) {
    (void)e;
    (void)at_once;
    *wait = op->wait;
    return op->is_short ? ULMS_RUN_SHORT : ULMS_RUN;
}

static void retired(struct ulms_engine *e, struct operation *op, uint64_t now) {
    (void)now;
    if (op->queued)
        leave_window(e, op);
}

static struct move *next(struct ulms_engine *e, int lane) {
    struct move *m = lane == ULMS_LANE_IN ? e->lane.first : NULL;
    if (m) {
        e->lane.first = m->after;
        registry_enter(&e->moves, &m->id);
    }
    return m;
}

static uint64_t moved(struct ulms_engine *e, const struct ulms_move *m, bool ok) {
    (void)ok;
    return m->bytes >> e->shift;
}

const struct policy_kind policy_ordered = {issued, admit, retired, next, moved};
