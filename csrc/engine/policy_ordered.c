/* The ordered policies: what an operation needs is decided, and queued, when it is issued. */
#include "engine/engine.h"

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void policy_ordered_leaves(struct ulms_engine *e, struct operation *op) {
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
        policy_ordered_leaves(e, e->window.first);
    }
    queue_append(&e->window, op);
    op->queued = true;
    return after;
}

static struct move *queue_move(struct ulms_engine *e, const struct page *p, uint32_t kind, uint32_t flags,
                               uint64_t after, uint64_t needs) {
    struct move *m = move_new(e);
    m->id.id = ++e->last_move;
    m->out = (struct ulms_move){.id = m->id.id,
                                .start = bytes_of(e, p->number),
                                .bytes = bytes_of(e, 1),
                                .after = after,
                                .needs = needs,
                                .kind = kind,
                                .flags = flags};
    struct lane *lane = &e->lanes[kind == ULMS_EVICT && e->policy->lanes ? ULMS_LANE_OUT : ULMS_LANE_IN];
    if (lane->first)
        lane->last->after = m;
    else
        lane->first = m;
    lane->last = m;
    return m;
}

/* The move m takes the page too, if it is the next one; else a new move. */
static struct move *extend(struct ulms_engine *e, struct move *m, const struct page *p, uint32_t kind, uint32_t flags,
                           uint64_t after, uint64_t needs) {
    if (!m || m->out.start + m->out.bytes != bytes_of(e, p->number) || m->out.flags != flags || m->out.after != after ||
        m->out.bytes >= bytes_of(e, e->run_pages) ||
        (needs != m->out.needs && (m->out.needs == 0 || needs != m->out.needs + 1)))
        return queue_move(e, p, kind, flags, after, needs);
    m->out.bytes += bytes_of(e, 1);
    m->out.needs = needs;
    return m;
}

/* One page leaves, with the move m or a new one. NULL: none may. */
static struct move *leave(struct ulms_engine *e, const struct operation *op, struct move *m, uint64_t after) {
    struct page *p = evict_queue_first(e, 0);
    if (!p || p->touched == op->id.id)
        return NULL;
    if (registry_find(&e->operations, p->touched))
        after = later(after, p->touched);
    m = extend(e, m, p, ULMS_EVICT, e->policy->lean ? evict_flags(e, p) : 0, after, 0);
    p->state = PAGE_ABSENT;
    p->dirty = false;
    e->used--;
    evict_queue_mark(e, p);
    return m;
}

/* The frames that evict moves free, in their order. */
struct freed {
    struct move *move;
    uint64_t taken; /* of its frames */
    uint64_t left;  /* in all; the moves that follow may be fills */
};

static void skip(const struct ulms_engine *e, struct freed *f, uint64_t frames) {
    f->left -= f->left < frames ? f->left : frames;
    for (f->taken += frames; f->left > 0 && f->taken >= f->move->out.bytes >> e->shift; f->move = f->move->after)
        f->taken -= f->move->out.bytes >> e->shift;
}

/* Steps 2 and 3. */
static void make_moves(struct ulms_engine *e, struct operation *op, uint64_t missing, uint64_t want, uint64_t after) {
    struct freed freed = {0};
    uint64_t before = e->last_move;
    for (struct move *m = NULL; freed.left < want && (m = leave(e, op, m, after)); freed.left++)
        if (!freed.move)
            freed.move = m;
    op->is_short = freed.left < want;
    uint64_t free_frames = want < missing ? missing - want : 0;
    skip(e, &freed, want > missing ? want - missing : 0);
    struct move *fill = NULL;
    for (size_t i = 0; i < op->count; i++) {
        struct page *p = op->entries[i].page;
        if (p->state != PAGE_ABSENT)
            continue;
        uint64_t needs = 0;
        if (free_frames > 0)
            free_frames--;
        else if (freed.left > 0) {
            needs = freed.move->id.id;
            skip(e, &freed, 1);
        } else if (!e->faults)
            continue;
        uint32_t flags = e->policy->lean ? fill_flags(e, p, op->entries[i].does) : 0;
        if (e->policy->fills)
            fill = extend(e, fill, p, ULMS_FILL, flags, after, needs);
        else
            e->stats.faulted_bytes += bytes_of(e, 1);
        p->state = PAGE_RESIDENT;
        e->used++;
        evict_queue_mark(e, p);
    }
    op->wait = e->last_move > before ? e->last_move : 0;
}

bool policy_ordered_issued(struct ulms_engine *e, struct operation *op) {
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
    for (size_t i = 0; i < op->count; i++)
        entry_mark(e, &op->entries[i]); /* its pages are marked above, and in no count */
    return true;
}
