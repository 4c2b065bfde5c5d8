/* What will be touched next: where in the history the program is, and the next touch of every page that follows. */
#include "engine/engine.h"

enum { LOOK_FURTHER = 64, INSERTED_MOST = 16, SEARCH_EVERY = 64 };

static bool strongly(const struct history *h, uint64_t a, uint64_t b) {
    return history_at(h, a)->strong == history_at(h, b)->strong;
}

/* From now on every next touch is unknown. */
static void forget(struct ulms_engine *e) {
    e->track.epoch++;
    e->frames.stale = true;
    demand_clear(&e->demand);
}

static void leave_track(struct ulms_engine *e) {
    e->track.on = false;
    forget(e);
}

static void set_next(struct ulms_engine *e, struct page *p, uint64_t next) {
    unsettle(e, p);
    p->epoch = e->track.epoch;
    p->next = next;
    settle(e, p);
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
static void pass(struct ulms_engine *e, uint64_t to) {
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
    e->track.search_at = now + SEARCH_EVERY;
    expect(e, position + 1, now);
}

static uint64_t look_further(const struct ulms_engine *e, uint64_t now) {
    uint64_t last = e->track.position + 1 + LOOK_FURTHER;
    for (uint64_t i = e->track.position + 2; i <= last && i < now; i++)
        if (strongly(&e->history, i, now))
            return i;
    return 0;
}

/* The rules of README.md, in their order. */
static void follow(struct ulms_engine *e, uint64_t now) {
    struct history *h = &e->history;
    struct track *t = &e->track;
    bool was_on = t->on;
    bool strong = was_on && strongly(h, t->position + 1, now);
    bool weak = was_on && history_at(h, t->position + 1)->weak == history_at(h, now)->weak;
    uint64_t found = 0;
    if (!strong) {
        if (was_on && !weak) {
            e->stats.surprises++;
            found = look_further(e, now);
        }
        uint64_t past = found || now < t->search_at
                            ? 0
                            : history_search(h, now, was_on ? history_common(h, t->position, now - 1) : 0);
        if (past) {
            start(e, past, now);
            t->inserted = 0;
            return;
        }
    }
    if (!was_on)
        return;
    if (strong || (weak && !found)) {
        e->stats.predicted++;
        found = t->position + 1;
    }
    if (found) {
        pass(e, found);
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
    if (kept)
        follow(e, op->id.id);
}
