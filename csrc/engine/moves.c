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
    m->id.id = ++e->last_move;
    m->out = (struct ulms_move){.id = m->id.id, .start = bytes_of(e, p->number), .kind = kind, .flags = flags};
    registry_enter(&e->moves, &m->id);
    return m;
}

int ulms_engine_next(struct ulms_engine *e, int lane, struct ulms_move *out) {
    struct move *m = e->policy->kind->next(e, lane);
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
    p->state = ok ? PAGE_RESIDENT : PAGE_ABSENT;
    if (!ok)
        return;
    p->dirty = false;
    set_lying(e, p, false);
    if (m->flags & ULMS_MOVE_DEAD)
        p->live = false;
    else
        set_untouched(e, p, true);
}

static void evicted(struct ulms_engine *e, struct page *p, const struct ulms_move *m, bool ok) {
    p->state = ok ? PAGE_ABSENT : PAGE_RESIDENT;
    if (!ok)
        return;
    p->dirty = false;
    set_lying(e, p, m->flags & ULMS_MOVE_IN_PLACE);
    if (p->untouched)
        e->stats.useless_bytes += bytes_of(e, 1);
    set_untouched(e, p, false);
}

uint64_t held_moved(struct ulms_engine *e, const struct ulms_move *m, bool ok) {
    bool fills = m->kind == ULMS_FILL;
    uint64_t at, last, n = 0;
    span(e, m->start, m->bytes, &at, &last);
    for (struct page *p; (p = page_walk(&e->table, &at, last));) {
        if (p->move != m->id)
            continue;
        unsettle(e, p);
        p->move = 0;
        if (fills)
            filled(e, p, m, ok);
        else
            evicted(e, p, m, ok);
        p->failures = ok ? 0 : p->failures + 1;
        settle(e, p);
        n++;
    }
    *(fills ? &e->filling : &e->evicting) -= n;
    e->used -= fills == ok ? 0 : n;
    return n;
}

void ulms_engine_moved(struct ulms_engine *e, uint64_t id, int ok) {
    struct move *m = (struct move *)registry_take(&e->moves, id);
    if (!m)
        return;
    uint64_t pages = e->policy->kind->moved(e, &m->out, ok);
    if (ok)
        count_move(e, &m->out, pages);
    release(e, m);
}
