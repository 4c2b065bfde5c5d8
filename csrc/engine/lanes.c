/* Moves: made, given out, done. */
#include <stdlib.h>

#include "engine/engine.h"

struct move *move_new(struct ulms_engine *e) {
    struct move *m = e->spare;
    if (m) {
        e->spare = m->after;
        e->spares--;
    } else if (!(m = malloc(sizeof(*m))))
        return NULL;
    m->after = NULL;
    return m;
}

static void release(struct ulms_engine *e, struct move *m) {
    m->after = e->spare;
    e->spare = m;
    e->spares++;
}

bool move_reserve(struct ulms_engine *e, size_t n) {
    while (e->spares < n) {
        struct move *m = malloc(sizeof(*m));
        if (!m)
            return false;
        release(e, m);
    }
    return true;
}

struct move *move_give_out(struct ulms_engine *e, const struct page *p, uint32_t kind, uint32_t flags) {
    struct move *m = move_new(e);
    if (!m)
        return NULL;
    m->id.id = ++e->move;
    m->out = (struct ulms_move){.id = m->id.id, .start = bytes_of(e, p->number), .kind = kind, .flags = flags};
    registry_enter(&e->moves, &m->id);
    return m;
}

void move_add(struct ulms_engine *e, struct move *m, struct page *p) {
    bool fills = m->out.kind == ULMS_FILL;
    unsettle(e, p);
    p->state = fills ? PAGE_FILLING : PAGE_EVICTING;
    p->move = m->id.id;
    settle(e, p);
    e->used += fills;
    e->filling += fills;
    e->evicting += !fills;
    m->out.bytes += bytes_of(e, 1);
}

int ulms_engine_next(struct ulms_engine *e, int lane, struct ulms_move *out) {
    struct move *m;
    if (lane != ULMS_LANE_IN && lane != ULMS_LANE_OUT)
        return 0;
    if (e->policy->held)
        m = lane == ULMS_LANE_IN ? ahead_fill(e) : ahead_evict(e);
    else if ((m = e->lanes[lane].first)) {
        e->lanes[lane].first = m->after;
        registry_enter(&e->moves, &m->id);
    }
    if (!m)
        return 0;
    *out = m->out;
    return 1;
}

/* --- done --- */

static void count_move(struct ulms_engine *e, const struct ulms_move *m, uint64_t pages) {
    uint64_t bytes = bytes_of(e, pages);
    struct ulms_engine_stats *s = &e->stats;
    if (m->flags & ULMS_MOVE_DEAD)
        s->dead_bytes += bytes;
    else if (m->flags & ULMS_MOVE_CLEAN)
        s->dropped_bytes += bytes;
    else if (m->kind == ULMS_EVICT)
        s->evicted_bytes += bytes;
    else {
        s->filled_bytes += bytes;
        s->early_bytes += m->flags & ULMS_MOVE_EARLY ? bytes : 0;
    }
}

void set_lying(struct ulms_engine *e, struct page *p, bool lies) {
    e->lying += (uint64_t)lies - p->in_place;
    p->in_place = lies;
}

static void filled(struct ulms_engine *e, struct page *p, const struct ulms_move *m, bool ok) {
    e->filling--;
    p->state = ok ? PAGE_RESIDENT : PAGE_ABSENT;
    if (!ok) {
        e->used--;
        return;
    }
    p->dirty = false;
    set_lying(e, p, false);
    if (m->flags & ULMS_MOVE_DEAD)
        p->live = false;
    else
        p->untouched = true;
}

static void evicted(struct ulms_engine *e, struct page *p, const struct ulms_move *m, bool ok) {
    e->evicting--;
    p->state = ok ? PAGE_ABSENT : PAGE_RESIDENT;
    if (!ok)
        return;
    e->used--;
    p->dirty = false;
    set_lying(e, p, m->flags & ULMS_MOVE_IN_PLACE);
    if (p->untouched)
        e->stats.useless_bytes += bytes_of(e, 1);
    p->untouched = false;
}

void ulms_engine_moved(struct ulms_engine *e, uint64_t id, int ok) {
    struct move *m = (struct move *)registry_take(&e->moves, id);
    if (!m)
        return;
    uint64_t first = m->out.start >> e->shift, last = first + (m->out.bytes >> e->shift) - 1, n = 0;
    struct page *p;
    if (!e->policy->held)
        n = last - first + 1;
    else
        while ((p = page_walk(&e->table, &first, last))) {
            if (p->move != id)
                continue;
            unsettle(e, p);
            p->move = 0;
            if (m->out.kind == ULMS_FILL)
                filled(e, p, &m->out, ok);
            else
                evicted(e, p, &m->out, ok);
            p->failures = ok ? 0 : p->failures + 1;
            settle(e, p);
            n++;
        }
    if (ok)
        count_move(e, &m->out, n);
    release(e, m);
}
