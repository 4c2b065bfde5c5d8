/* Moves: the next of each lane under a held policy, the next in the queue under an ordered one. */
#include <stdlib.h>

#include "engine/engine.h"

struct move *move_new(struct ulms_engine *e) {
    struct move *m = e->spare;
    if (m) {
        e->spare = m->after;
        e->spares--;
    } else if (!(m = malloc(sizeof(*m))))
        return NULL;
    *m = (struct move){0};
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

uint32_t fill_flags(const struct ulms_engine *e, const struct page *p, uint8_t does, bool sure) {
    if (!p->live || (sure && does & DOES_PLACE))
        return ULMS_MOVE_DEAD;
    return e->keeps && (does & DOES_MODES) == DOES_READ ? ULMS_MOVE_KEEP : 0;
}

uint32_t evict_flags(const struct ulms_engine *e, const struct page *p) {
    if (!p->live)
        return ULMS_MOVE_DEAD;
    return e->keeps && !p->dirty ? ULMS_MOVE_CLEAN : 0;
}

static struct move *give_out(struct ulms_engine *e, uint64_t first, uint64_t pages, uint32_t kind, uint32_t flags) {
    struct move *m = move_new(e);
    if (!m)
        return NULL;
    m->id.id = ++e->move;
    m->out = (struct ulms_move){
        .id = m->id.id, .start = bytes_of(e, first), .bytes = bytes_of(e, pages), .kind = kind, .flags = flags};
    registry_enter(&e->moves, &m->id);
    return m;
}

/* --- in --- */

/* The pages of one operation, waiting or predicted, in order of address. */
struct list {
    const struct operation *op; /* else records */
    uint64_t records;
    size_t count;
};

static struct page *list_page(const struct ulms_engine *e, const struct list *l, size_t i, uint8_t *does) {
    if (l->op) {
        *does = l->op->entries[i].does;
        return l->op->entries[i].page;
    }
    const struct record *r = history_record(&e->history, l->records + i);
    *does = r->does;
    return r->page;
}

static struct move *next_fill(struct ulms_engine *e) {
    uint64_t time = e->used < e->budget ? demand_time(e, 1) : TIME_UNKNOWN;
    if (time == TIME_UNKNOWN)
        return NULL;
    bool sure = time < TIME_PREDICTED;
    struct operation *op = e->waiting.first;
    struct list l = {0};
    size_t i = 0;
    if (sure) {
        while (op->id.id != time)
            op = op->after;
        l = (struct list){.op = op, .count = op->count};
        i = op->cursor;
    } else {
        const struct past *past = history_at(&e->history, time - TIME_PREDICTED);
        l = (struct list){.records = past->records, .count = past->count};
    }
    uint8_t does, demanded = sure ? DEMAND_WAITING : DEMAND_PREDICTED;
    struct page *p = list_page(e, &l, i, &does);
    while (p->demand != demanded || page_time(e, p) != time)
        p = list_page(e, &l, ++i, &does);
    if (sure)
        op->cursor = i;
    uint64_t first = p->number, n = 0, most = e->budget - e->used < e->run_pages ? e->budget - e->used : e->run_pages;
    uint32_t flags = fill_flags(e, p, does, sure);
    struct move *m = give_out(e, first, 0, ULMS_FILL, flags | (sure ? 0 : ULMS_MOVE_EARLY));
    if (!m)
        return NULL;
    do {
        unsettle(e, p);
        p->state = PAGE_FILLING;
        p->move = m->id.id;
        settle(e, p);
        n++;
        if (++i == l.count)
            break;
        p = list_page(e, &l, i, &does);
    } while (n < most && p->number == first + n && p->demand == demanded && page_time(e, p) == time &&
             fill_flags(e, p, does, sure) == flags);
    m->out.bytes = bytes_of(e, n);
    e->used += n;
    e->filling += n;
    return m;
}

/* --- out --- */

static struct move *next_evict(struct ulms_engine *e) {
    uint64_t wanted = e->waiting.first ? e->waiting.first->id.id : 0; /* over budget: all but its pages may leave */
    uint64_t kept = e->used - e->evicting;
    if (kept <= e->budget) {
        uint64_t nearly_free = e->budget - kept;
        wanted = nearly_free < e->near_pages ? demand_time(e, nearly_free + 1) : TIME_UNKNOWN;
    }
    if (wanted == TIME_UNKNOWN)
        return NULL;
    struct page *p = frames_first(e, wanted);
    if (!p)
        return NULL;
    uint64_t first = p->number, time = page_time(e, p), n = 0;
    uint32_t flags = evict_flags(e, p) | (wanted > TIME_PREDICTED ? ULMS_MOVE_EARLY : 0);
    bool live = p->live, dirty = p->dirty;
    struct move *m = give_out(e, first, 0, ULMS_EVICT, flags);
    if (!m)
        return NULL;
    do {
        unsettle(e, p);
        p->state = PAGE_EVICTING;
        p->move = m->id.id;
        settle(e, p);
        n++;
        p = page_find(&e->table, first + n);
    } while (n < e->run_pages && p && p->held && frames_may_leave(p) && page_time(e, p) == time && p->live == live &&
             p->dirty == dirty);
    m->out.bytes = bytes_of(e, n);
    e->evicting += n;
    return m;
}

int ulms_engine_next(struct ulms_engine *e, int lane, struct ulms_move *out) {
    struct move *m;
    if (lane != ULMS_LANE_IN && lane != ULMS_LANE_OUT)
        return 0;
    if (e->policy->held)
        m = lane == ULMS_LANE_IN ? next_fill(e) : next_evict(e);
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

static void filled(struct ulms_engine *e, struct page *p, const struct ulms_move *m, bool ok) {
    e->filling--;
    p->state = ok ? PAGE_RESIDENT : PAGE_ABSENT;
    if (!ok) {
        e->used--;
        return;
    }
    p->dirty = false;
    if (m->flags & ULMS_MOVE_DEAD)
        p->live = false;
    else
        p->untouched = true;
}

static void evicted(struct ulms_engine *e, struct page *p, bool ok) {
    e->evicting--;
    p->state = ok ? PAGE_ABSENT : PAGE_RESIDENT;
    if (!ok)
        return;
    e->used--;
    p->dirty = false;
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
                evicted(e, p, ok);
            p->failures = ok ? 0 : p->failures + 1;
            settle(e, p);
            n++;
        }
    if (ok)
        count_move(e, &m->out, n);
    release(e, m);
}
