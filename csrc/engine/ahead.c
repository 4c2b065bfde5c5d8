/* The held policy: who comes and who leaves next. */
#include "engine/engine.h"

enum {
    NEAR_OPERATIONS = 32, /* so long before an operation runs the places of its dead pages are made */
    HEIRS = 64            /* with more frames to spare nobody asks whose the next one is */
};

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* --- how many pages there will be --- */

/* What is held at x, less L(x): the same for every x. */
static int64_t held_less_live(const struct ulms_engine *e) {
    const struct history *h = &e->history;
    int64_t now = history_at(h, h->end - 1)->live, then = history_at(h, e->track.position)->live;
    return now - then - (int64_t)e->counted[COUNT_AWAY];
}

/* Live pages that may still come before that predicted time, so that those which become live until then have room. */
static uint64_t room(const struct ulms_engine *e, uint64_t time) {
    int64_t held = peaks_most(&e->peaks, e->track.position, time - TIME_PREDICTED) + held_less_live(e);
    return held < (int64_t)e->budget ? e->budget - (uint64_t)held : 0;
}

/* The first predicted operation at which too many pages would be live. TIME_UNKNOWN: none. */
static uint64_t crowded(const struct ulms_engine *e) {
    if (!e->track.on)
        return TIME_UNKNOWN;
    int64_t most = (int64_t)e->budget - held_less_live(e);
    uint64_t end = e->history.end;
    uint64_t at = peaks_above(&e->peaks, e->track.position + 1, end, most < 0 ? 0 : (uint32_t)most);
    return at < end ? TIME_PREDICTED + at : TIME_UNKNOWN;
}

/* The last predicted operation at which most pages will be live. TIME_UNKNOWN: none is predicted. */
static uint64_t peak(const struct ulms_engine *e) {
    uint64_t at = e->track.position + 1, end = e->history.end, from = at + 1, to = end;
    if (!e->track.on || at >= end)
        return TIME_UNKNOWN;
    uint32_t most = peaks_most(&e->peaks, at, end);
    while (from < to) { /* it is at `at` or behind, and before `to` */
        uint64_t middle = from + (to - from) / 2;
        if (peaks_most(&e->peaks, middle, end) == most) {
            at = middle;
            from = middle + 1;
        } else
            to = middle;
    }
    return TIME_PREDICTED + at;
}

static uint64_t soon(const struct ulms_engine *e) {
    return TIME_PREDICTED + e->track.position + NEAR_OPERATIONS;
}

static void set_moving(struct ulms_engine *e, struct page *p, enum page_state state, const struct move *m) {
    unsettle(e, p);
    p->state = state;
    p->move = m->id.id;
    settle(e, p);
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

/* To the n-th that is wished alike behind it; pre: there is one. */
static void pass(const struct ulms_engine *e, struct wish *w, uint64_t n) {
    for (; n > 0; n -= is_wished(e, w)) {
        w->at++;
        look(e, w);
    }
}

/* A fill of it and of those that follow in memory and are wished alike, so many at most. */
static struct move *grant(struct ulms_engine *e, struct wish w, uint64_t most) {
    uint32_t flags = w.flags;
    struct move *m = move_give_out(e, w.page, ULMS_FILL, flags | (w.op ? 0 : ULMS_MOVE_EARLY));
    if (!m)
        return NULL;
    uint64_t first = w.page->number, pages = 0;
    do {
        set_moving(e, w.page, PAGE_FILLING, m);
        if (++pages == most || ++w.at == w.count)
            break;
        look(e, &w);
    } while (w.page->number == first + pages && is_wished(e, &w) && w.flags == flags);
    m->out.bytes = bytes_of(e, pages);
    e->used += pages;
    e->filling += pages;
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

/* --- whose frame is the next --- */

/* The k-th page, from 0, that is predicted to come. False: there are not so many. */
static bool predicted_heir(struct ulms_engine *e, uint64_t k, struct wish *w) {
    uint64_t places = 0, bytes = 0, time = TIME_UNKNOWN, same = 0;
    uint8_t demand = DEMAND_NONE;
    for (uint64_t i = 0; i <= k; i++) {
        uint64_t place = demand_predicted(e, &e->places, places + 1), page = demand_predicted(e, &e->bytes, bytes + 1);
        uint8_t next = place <= soon(e) && place < page ? DEMAND_PLACE : DEMAND_BYTES;
        uint64_t at = next == DEMAND_PLACE ? place : page;
        if (at == TIME_UNKNOWN)
            return false;
        same = at == time && next == demand ? same + 1 : 0;
        time = at;
        demand = next;
        ++*(next == DEMAND_PLACE ? &places : &bytes);
    }
    *w = find_wish(e, time, demand);
    pass(e, w, same);
    return true;
}

/* The page that comes into the frame that is the next to be free, when `spare` are for others. */
static bool heir(struct ulms_engine *e, uint64_t spare, struct wish *w) {
    for (const struct operation *op = e->waiting.first; op; spare -= op->wanted, op = op->after)
        if (spare < op->wanted) {
            *w = find_wish(e, op->id.id, DEMAND_WAITING);
            pass(e, w, spare);
            return true;
        }
    return predicted_heir(e, spare, w);
}

/* --- out --- */

/* The first to leave of those whose next touch is after that time. */
struct leaver {
    struct page *page; /* NULL: nobody */
    uint64_t after;
};

static struct leaver first_dead(struct ulms_engine *e, uint64_t after) {
    return (struct leaver){after == TIME_UNKNOWN ? NULL : leavers_first_dead(e, after), after};
}

static struct leaver first_live(struct ulms_engine *e, uint64_t after) {
    return (struct leaver){after == TIME_UNKNOWN ? NULL : leavers_first_live(e, after), after};
}

/* For operations that wait: live pages leave only if dead ones that may leave later would not do. */
static struct leaver leaves_for_waiting(struct ulms_engine *e, uint64_t spare, uint64_t wanted) {
    struct leaver l = first_dead(e, wanted);
    bool nothing_ends = e->running == 0 && e->moves.count == 0;
    if (l.page)
        return l;
    uint64_t lacking = nothing_ends || e->overtaken ? wanted : demand_waiting(e, spare + e->counted[COUNT_IDLE] + 1);
    return first_live(e, lacking);
}

/* For what is predicted; `wanted` frames of the spare ones are taken. */
static struct leaver leaves_early(struct ulms_engine *e, uint64_t spare, uint64_t wanted) {
    uint64_t free = spare - least(spare, wanted);
    uint64_t bytes = demand_predicted(e, &e->bytes, 1), space = bytes == TIME_UNKNOWN ? 0 : room(e, bytes);
    struct leaver l = {0};
    uint64_t lacking = free < e->near_pages && space > free ? demand_predicted(e, &e->bytes, free + 1) : TIME_UNKNOWN;
    if (lacking != TIME_UNKNOWN)
        l = first_dead(e, least(lacking, soon(e)));
    if (!l.page && free < e->near_pages && demand_predicted(e, &e->places, free + 1) <= soon(e))
        l = first_dead(e, soon(e));
    if (!l.page && bytes != TIME_UNKNOWN && wanted + space < e->near_pages)
        l = first_live(e, demand_predicted(e, &e->bytes, space + 1));
    if (l.page)
        return l;
    uint64_t time = crowded(e);
    return first_live(e, time > bytes ? TIME_UNKNOWN : time);
}

static struct leaver leaves(struct ulms_engine *e, bool *early) {
    uint64_t kept = e->used - e->evicting, wanted = 0;
    *early = false;
    if (kept > e->budget)
        return (struct leaver){leavers_first(e, e->waiting.first ? e->waiting.first->id.id : 0), TIME_UNKNOWN};
    uint64_t spare = e->budget - kept;
    struct leaver l = leaves_for_waiting(e, spare, demand_waiting(e, spare + 1));
    if (l.page)
        return l;
    *early = true;
    for (const struct operation *op = e->waiting.first; op; op = op->after)
        wanted += op->wanted;
    return leaves_early(e, spare, wanted);
}

/* Who may leave and has the frame on which that page has a claim. NULL: nobody. */
static struct page *holder_for(struct ulms_engine *e, const struct page *comes) {
    uint64_t start = e->holder(e->holder_data, bytes_of(e, comes->number));
    struct page *p = start ? page_find(&e->table, start >> e->shift) : NULL;
    return p && p->allocated && page_may_leave(p) ? p : NULL;
}

/* The same, dead, of the first dead page with such a claim, of those for which frames may be free by now. */
static struct page *dead_holder(struct ulms_engine *e, bool *early) {
    uint64_t most = e->holder && e->used - e->evicting <= e->budget ? least(e->near_pages + e->run_pages, HEIRS) : 0;
    struct wish w;
    for (uint64_t k = 0; k < most && heir(e, k, &w); k++) {
        struct page *p = w.page->live ? NULL : holder_for(e, w.page);
        if (p && !p->live && page_leave_time(e, p) > later(w.time, soon(e))) {
            *early = !w.op;
            return p;
        }
    }
    return NULL;
}

/* Who may leave in its place, because the next page to come has a claim on that frame. NULL: nobody. */
static struct page *holder(struct ulms_engine *e, const struct leaver *l) {
    uint64_t kept = e->used - e->evicting;
    struct wish w;
    if (!e->holder || kept > e->budget || e->budget - kept >= HEIRS || !heir(e, e->budget - kept, &w))
        return NULL;
    struct page *p = holder_for(e, w.page);
    if (!p || page_leave_time(e, p) <= later(l->after, w.time))
        return NULL;
    if (!p->live)
        return l->page->live ? NULL : p;
    bool crowd = l->page->live || crowded(e) != TIME_UNKNOWN;
    return crowd && !w.page->live && page_leave_time(e, p) > peak(e) ? p : NULL;
}

struct move *ahead_evict(struct ulms_engine *e) {
    bool early;
    struct leaver l = leaves(e, &early);
    struct page *instead = l.page && !l.page->live ? NULL : dead_holder(e, &early);
    if (!instead && l.page)
        instead = holder(e, &l);
    struct page *p = instead ? instead : l.page;
    if (!p)
        return NULL;
    uint64_t time = page_leave_time(e, p), most = instead ? 1 : e->run_pages, pages = 0;
    bool live = p->live, dirty = p->dirty;
    uint32_t flags = evict_flags(e, p);
    struct move *m = move_give_out(e, p, ULMS_EVICT, flags | (early ? ULMS_MOVE_EARLY : 0));
    if (!m)
        return NULL;
    do {
        uint64_t number = p->number;
        set_moving(e, p, PAGE_EVICTING, m);
        p = page_find(&e->table, number + 1);
    } while (++pages < most && p && p->allocated && page_may_leave(p) && page_leave_time(e, p) == time &&
             p->live == live && p->dirty == dirty && evict_flags(e, p) == flags);
    m->out.bytes = bytes_of(e, pages);
    e->evicting += pages;
    return m;
}
