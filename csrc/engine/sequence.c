/* What will be touched next: where in the history the program is, and the next touch of every page that follows. */
#include "engine/engine.h"

enum { LOOK_FURTHER = 64, INSERTED_MOST = 16, SEARCH_EVERY = 16 };

static bool alike(const struct history *h, uint64_t a, uint64_t b) {
    return history_at(h, a)->mark == history_at(h, b)->mark;
}

/* From now on every next touch is unknown. */
static void forget(struct ulms_engine *e) {
    e->track.epoch++;
    e->evict_queue.stale = true;
    fill_demand_clear(&e->places);
    fill_demand_clear(&e->bytes);
    fill_demand_clear(&e->resting);
}

/* Whether pages rest may be another now. */
static void renew_lying(struct ulms_engine *e) {
    uint64_t at = 0;
    for (struct page *p; e->lying > 0 && (p = page_walk(&e->table, &at, UINT64_MAX));)
        if (p->in_place) {
            unsettle(e, p);
            settle(e, p);
        }
}

static void leave_track(struct ulms_engine *e) {
    e->track.on = false;
    forget(e);
    renew_lying(e);
}

static void set_next(struct ulms_engine *e, struct page *p, uint64_t next) {
    unsettle(e, p);
    p->epoch = e->track.epoch;
    p->next = next;
    settle_order(e, p);
}

static bool is_known(const struct ulms_engine *e, const struct page *p) {
    return p->epoch == e->track.epoch && p->next;
}

/* Pages whose first touch in [from, to] is not known yet get it. */
static void expect(struct ulms_engine *e, uint64_t from, uint64_t to) {
    struct history *h = &e->history;
    for (uint64_t i = from; i <= to; i++) {
        const struct past *op = history_at(h, i);
        for (uint32_t j = 0; j < op->count; j++) {
            struct page *p = history_record(h, op->records + j)->page;
            if (!is_known(e, p))
                set_next(e, p, i);
        }
    }
}

/* p of the track goes on to `to`: what was expected until there now has its next touch later. */
static void advance(struct ulms_engine *e, uint64_t to) {
    struct history *h = &e->history;
    for (uint64_t i = e->track.position + 1; i <= to; i++) {
        const struct past *op = history_at(h, i);
        for (uint32_t j = 0; j < op->count; j++) {
            const struct record *r = history_record(h, op->records + j);
            if (is_known(e, r->page) && r->page->next == i)
                set_next(e, r->page, r->ahead ? i + r->ahead : 0);
        }
    }
    e->track.position = to;
}

static void start(struct ulms_engine *e, uint64_t position, uint64_t now) {
    forget(e);
    e->track.on = true;
    e->track.position = position;
    expect(e, position + 1, now);
    renew_lying(e);
}

static uint64_t look_further(const struct ulms_engine *e, uint64_t now) {
    uint64_t last = e->track.position + 1 + LOOK_FURTHER;
    for (uint64_t i = e->track.position + 2; i <= last && i < now; i++)
        if (alike(&e->history, i, now))
            return i;
    return 0;
}

void sequence_renew(struct ulms_engine *e) {
    if (e->track.on)
        start(e, e->track.position, e->history.end - 1);
}

static void start_anew(struct ulms_engine *e, uint64_t position, uint64_t now) {
    e->track.inserted = e->track.steady = 0;
    start(e, position, now);
}

/* The rules of tests/reference/sequence.py, in their order. */
static void follow(struct ulms_engine *e, uint64_t now) {
    struct history *h = &e->history;
    struct track *t = &e->track;
    bool was_on = t->on;
    uint64_t next = t->position + 1, found = 0;
    bool expected = was_on && history_at(h, next)->key == history_at(h, now)->key;
    if (was_on && !expected) {
        e->stats.surprises++;
        found = look_further(e, now);
    }
    bool alike_next = expected && alike(h, next, now);
    if (!found && !alike_next && now >= t->search_at) {
        uint64_t track = !was_on    ? 0
                         : expected ? history_likeness(h, next, now)
                                    : history_likeness(h, next - 1, now - 1);
        uint64_t more = track + track / MARGIN + (expected ? BACK_MOST - 1 : 0);
        uint64_t better = history_search(h, now, more);
        if (was_on || better)
            t->search_at = now + SEARCH_EVERY;
        if (better) {
            start_anew(e, better, now);
            return;
        }
    } else if (alike_next && t->steady >= BACK_MOST && (t->steady & (t->steady - 1)) == 0) {
        uint64_t track = history_likeness(h, next, now);
        uint64_t nearest = history_search(h, now, track - track / MARGIN - 1);
        if (nearest && nearest != next) {
            start_anew(e, nearest, now);
            return;
        }
    }
    if (!was_on)
        return;
    if (expected) {
        e->stats.predicted++;
        found = next;
        t->steady++;
    } else
        t->steady = 0;
    if (found) {
        advance(e, found);
        t->inserted = 0;
    } else if (++t->inserted == INSERTED_MOST) {
        t->inserted = 0;
        leave_track(e);
        return;
    }
    expect(e, now, now);
}

void sequence_issued(struct ulms_engine *e, const struct operation *op) {
    bool kept = history_append(e, op);
    if (e->track.on && (!kept || e->track.position < e->history.first))
        leave_track(e);
    uint64_t surprises = e->stats.surprises;
    uint32_t epoch = e->track.epoch;
    if (kept)
        follow(e, op->id.id);
    bool surprise = surprises != e->stats.surprises || epoch != e->track.epoch;
    trial_issued(e, op->id.id, surprise);
    depth_issued(e, op->id.id, surprise);
}
