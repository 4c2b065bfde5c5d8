/* The held policy: who comes and who leaves next. */
#include "engine/engine.h"

enum { NEAR_OPERATIONS = 32 /* so long before an operation runs the places of its dead pages are made */ };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* --- how many pages there will be --- */

/* Live pages that are here or come, more than were live at the position of the history that is gone through again. */
static int64_t held_more(const struct ulms_engine *e) {
    const struct history *h = &e->history;
    int64_t now = history_at(h, h->end - 1)->live, then = history_at(h, e->track.position)->live;
    return now - then - (int64_t)e->away;
}

/* Live pages that may still come before that predicted time, so that those which become live until then have room. */
static uint64_t room(const struct ulms_engine *e, uint64_t time) {
    int64_t held = peaks_most(&e->peaks, e->track.position, time - TIME_PREDICTED) + held_more(e);
    return held < (int64_t)e->budget ? e->budget - (uint64_t)held : 0;
}

/* The first predicted operation at which too many pages would be live. TIME_UNKNOWN: none. */
static uint64_t crowded(const struct ulms_engine *e) {
    if (!e->track.on)
        return TIME_UNKNOWN;
    int64_t most = (int64_t)e->budget - held_more(e);
    uint64_t end = e->history.end;
    uint64_t at = peaks_above(&e->peaks, e->track.position + 1, end, most < 0 ? 0 : (uint32_t)most);
    return at < end ? TIME_PREDICTED + at : TIME_UNKNOWN;
}

static uint64_t soon(const struct ulms_engine *e) {
    return TIME_PREDICTED + e->track.position + NEAR_OPERATIONS;
}

/* --- in --- */

/* The pages of one operation, waiting or predicted, in order of address, from the first demanded one on. */
struct wish {
    uint64_t time;
    uint8_t demand;
    struct operation *op; /* else records */
    uint64_t records;
    size_t count, at;
    struct page *page;
    uint32_t flags;
};

static void look(const struct ulms_engine *e, struct wish *w) {
    bool sure = w->demand == DEMAND_WAITING;
    const struct record *r = sure ? NULL : history_record(&e->history, w->records + w->at);
    w->page = sure ? w->op->entries[w->at].page : r->page;
    w->flags = fill_flags(e, w->page, sure ? w->op->entries[w->at].does : r->does);
}

static bool is_wished(const struct ulms_engine *e, const struct wish *w) {
    return w->page->demand == w->demand && page_time(e, w->page) == w->time;
}

/* Pre: a page is demanded so at that time. */
static struct wish find_wish(const struct ulms_engine *e, uint64_t time, uint8_t demand) {
    struct wish w = {.time = time, .demand = demand};
    if (demand == DEMAND_WAITING) {
        for (w.op = e->waiting.first; w.op->id.id != time;)
            w.op = w.op->after;
        w.count = w.op->count;
        w.at = w.op->cursor;
    } else {
        const struct past *past = history_at(&e->history, time - TIME_PREDICTED);
        w.records = past->records;
        w.count = past->count;
    }
    for (look(e, &w); !is_wished(e, &w); look(e, &w))
        w.at++;
    if (w.op)
        w.op->cursor = w.at;
    return w;
}

/* A fill of it and of those that follow in memory and are wished alike, so many at most. */
static struct move *grant(struct ulms_engine *e, struct wish w, uint64_t most) {
    uint32_t flags = w.flags;
    struct move *m = move_give_out(e, w.page, ULMS_FILL, flags | (w.op ? 0 : ULMS_MOVE_EARLY));
    if (!m)
        return NULL;
    for (uint64_t next = w.page->number; most > 0; most--) {
        move_add(e, m, w.page);
        next++;
        if (++w.at == w.count)
            break;
        look(e, &w);
        if (w.page->number != next || !is_wished(e, &w) || w.flags != flags)
            break;
    }
    return m;
}

struct move *ahead_fill(struct ulms_engine *e) {
    if (e->used >= e->budget)
        return NULL;
    uint64_t most = least(e->budget - e->used, e->run_pages);
    uint64_t waiting = demand_waiting(e, 1), place = demand_predicted(e, &e->places, 1);
    uint64_t bytes = demand_predicted(e, &e->bytes, 1);
    uint64_t come = bytes == TIME_UNKNOWN ? 0 : least(most, room(e, bytes));
    if (waiting != TIME_UNKNOWN) {
        struct wish w = find_wish(e, waiting, DEMAND_WAITING);
        bool may_wait = w.flags & ULMS_MOVE_DEAD && e->running >= NEAR_OPERATIONS && !e->overtaken;
        if (come == 0 || !may_wait)
            return grant(e, w, most);
    } else if (place <= soon(e) && (come == 0 || place < bytes))
        return grant(e, find_wish(e, place, DEMAND_PLACE), most);
    if (come > 0)
        return grant(e, find_wish(e, bytes, DEMAND_BYTES), come);
    uint64_t resting = demand_predicted(e, &e->resting, 1);
    if (resting != TIME_UNKNOWN)
        come = least(most, room(e, TIME_PREDICTED + e->history.end));
    return come > 0 ? grant(e, find_wish(e, resting, DEMAND_RESTING), come) : NULL;
}

/* --- out --- */

/* For operations that wait: live pages leave only if dead ones that may leave later would not do. */
static struct page *leaves_for_waiting(struct ulms_engine *e, uint64_t spare, uint64_t wanted) {
    struct page *p = frames_first_dead(e, wanted);
    bool nothing_ends = e->running == 0 && e->moves.count == 0;
    if (p)
        return p;
    uint64_t lacking = nothing_ends || e->overtaken ? wanted : demand_waiting(e, spare + e->idle + 1);
    return lacking == TIME_UNKNOWN ? NULL : frames_first_live(e, lacking);
}

/* For what is predicted; `wanted` frames of the spare ones are taken. */
static struct page *leaves_early(struct ulms_engine *e, uint64_t spare, uint64_t wanted) {
    uint64_t free = spare - least(spare, wanted);
    uint64_t bytes = demand_predicted(e, &e->bytes, 1), space = bytes == TIME_UNKNOWN ? 0 : room(e, bytes);
    struct page *p = NULL;
    uint64_t lacking = free < e->near_pages && space > free ? demand_predicted(e, &e->bytes, free + 1) : TIME_UNKNOWN;
    if (lacking != TIME_UNKNOWN)
        p = frames_first_dead(e, least(lacking, soon(e)));
    if (!p && free < e->near_pages && demand_predicted(e, &e->places, free + 1) <= soon(e))
        p = frames_first_dead(e, soon(e));
    if (!p && bytes != TIME_UNKNOWN && wanted + space < e->near_pages) {
        uint64_t time = demand_predicted(e, &e->bytes, space + 1);
        p = time == TIME_UNKNOWN ? NULL : frames_first_live(e, time);
    }
    if (p)
        return p;
    uint64_t time = crowded(e);
    return time == TIME_UNKNOWN || time > bytes ? NULL : frames_first_live(e, time);
}

static struct page *leaves(struct ulms_engine *e, bool *early) {
    uint64_t kept = e->used - e->evicting, wanted = 0;
    *early = false;
    if (kept > e->budget)
        return frames_first(e, e->waiting.first ? e->waiting.first->id.id : 0);
    uint64_t spare = e->budget - kept, time = demand_waiting(e, spare + 1);
    struct page *p = time == TIME_UNKNOWN ? NULL : leaves_for_waiting(e, spare, time);
    if (p)
        return p;
    *early = true;
    for (const struct operation *op = e->waiting.first; op; op = op->after)
        wanted += op->wanted;
    return leaves_early(e, spare, wanted);
}

struct move *ahead_evict(struct ulms_engine *e) {
    bool early;
    struct page *p = leaves(e, &early);
    if (!p)
        return NULL;
    uint64_t time = page_leave_time(e, p), pages = 0;
    bool live = p->live, dirty = p->dirty;
    uint32_t flags = evict_flags(e, p);
    struct move *m = move_give_out(e, p, ULMS_EVICT, flags | (early ? ULMS_MOVE_EARLY : 0));
    if (!m)
        return NULL;
    do {
        uint64_t number = p->number;
        move_add(e, m, p);
        p = page_find(&e->table, number + 1);
    } while (++pages < e->run_pages && p && p->held && frames_may_leave(p) && page_leave_time(e, p) == time &&
             p->live == live && p->dirty == dirty && evict_flags(e, p) == flags);
    return m;
}
