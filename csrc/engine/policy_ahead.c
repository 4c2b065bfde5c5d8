/* The held policy: who comes and who leaves next. */
#include "engine/engine.h"

enum {
    NEAR_OPERATIONS = 32, /* so long before an operation runs the places of its dead pages are made */
    HEIRS = 64            /* with more frames to spare nobody asks whose the next one is */
};

/* The flags of a page that comes for an operation that does this to it, or that leaves. */
static uint32_t fill_flags(const struct ulms_engine *e, const struct page *p, uint8_t does) {
    if (!p->live)
        return ULMS_MOVE_DEAD;
    return e->keeps && (does & DOES_MODES) == DOES_READ ? ULMS_MOVE_KEEP : 0;
}

static uint32_t evict_flags(const struct ulms_engine *e, const struct page *p) {
    if (!p->live)
        return ULMS_MOVE_DEAD;
    return (e->keeps && !p->dirty ? ULMS_MOVE_CLEAN : 0) | (page_streamed(e, p) ? ULMS_MOVE_IN_PLACE : 0);
}

/* --- how many pages there will be --- */

/* What is held at x, less L(x): the same for every x. */
static int64_t held_less_live(const struct ulms_engine *e) {
    const struct history *h = &e->history;
    int64_t now = history_at(h, h->end - 1)->live, then = history_at(h, e->track.position)->live;
    return now - then - (int64_t)e->counted[COUNT_AWAY];
}

/* So many live pages may come for that predicted time, or later: those that become live before it have room then. */
static uint64_t room_before(const struct ulms_engine *e, uint64_t time) {
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

/* No page left with its bytes in a period: what comes waits for no copy, and takes what left at once. */
static bool is_quiet(const struct ulms_engine *e) {
    return e->track.on && e->sent_at < e->track.position;
}

/* So many pages, half of them while it is quiet. */
static uint64_t quietly(const struct ulms_engine *e, uint64_t pages) {
    return is_quiet(e) && pages > 1 ? pages / 2 : pages;
}

static uint64_t run_pages(const struct ulms_engine *e) {
    return quietly(e, e->run_pages);
}

static uint64_t near_pages(const struct ulms_engine *e) {
    return quietly(e, e->near_pages);
}

static inline void set_moving(struct ulms_engine *e, struct page *p, enum page_state state, const struct move *m) {
    unsettle(e, p);
    p->state = state;
    p->move = m->id.id;
    settle(e, p);
}

/* --- in --- */

/* One of those to come: a demanded page, among the pages of the operation that touches it next, in order of address. */
struct comer {
    uint64_t wanted_at;
    uint8_t demand;
    struct operation *op; /* else records */
    uint64_t records;
    size_t count, at;
    struct page *page;
    uint32_t flags;
};

static inline void comer_look(const struct ulms_engine *e, struct comer *c) {
    bool sure = c->demand == DEMAND_SURE;
    const struct record *r = sure ? NULL : history_record(&e->history, c->records + c->at);
    c->page = sure ? c->op->entries[c->at].page : r->page;
    c->flags = fill_flags(e, c->page, sure ? c->op->entries[c->at].does : r->does);
}

static bool is_demanded_alike(const struct ulms_engine *e, const struct comer *c) {
    return c->page->demand == c->demand && page_time(e, c->page) == c->wanted_at;
}

/* The first page with that demand that is wanted at that time; pre: there is one. */
static struct comer comer_find(const struct ulms_engine *e, uint64_t wanted_at, uint8_t demand) {
    struct comer c = {.wanted_at = wanted_at, .demand = demand};
    if (demand == DEMAND_SURE) {
        for (c.op = e->waiting.first; c.op->id.id != wanted_at;)
            c.op = c.op->after;
        c.count = c.op->count;
        c.at = c.op->cursor;
    } else {
        const struct past *past = history_at(&e->history, wanted_at - TIME_PREDICTED);
        c.records = past->records;
        c.count = past->count;
    }
    for (comer_look(e, &c); !is_demanded_alike(e, &c); comer_look(e, &c))
        c.at++;
    if (c.op)
        c.op->cursor = c.at;
    return c;
}

/* To the n-th behind it that is demanded alike; pre: there is one. */
static void comer_skip(const struct ulms_engine *e, struct comer *c, uint64_t n) {
    for (; n > 0; n -= is_demanded_alike(e, c)) {
        c->at++;
        comer_look(e, c);
    }
}

/* A fill of it and of those that follow in memory and are demanded alike, so many at most. */
static struct move *fill_from(struct ulms_engine *e, struct comer c, uint64_t most) {
    uint32_t flags = c.flags;
    struct move *m = move_give_out(e, c.page, ULMS_FILL, flags | (c.op ? 0 : ULMS_MOVE_EARLY));
    if (!m)
        return NULL;
    uint64_t first = c.page->number, pages = 0;
    do {
        set_moving(e, c.page, PAGE_FILLING, m);
        if (++pages == most || ++c.at == c.count)
            break;
        comer_look(e, &c);
    } while (c.page->number == first + pages && is_demanded_alike(e, &c) && c.flags == flags);
    m->out.bytes = bytes_of(e, pages);
    e->used += pages;
    e->filling += pages;
    return m;
}

static struct move *next_fill(struct ulms_engine *e) {
    if (e->used >= e->budget)
        return NULL;
    uint64_t most = smaller(e->budget - e->used, run_pages(e));
    uint64_t sure_at = fill_demand_sure(e, 1), place_at = fill_demand_predicted(e, &e->places, 1);
    uint64_t bytes_at = fill_demand_predicted(e, &e->bytes, 1);
    uint64_t room = bytes_at == TIME_UNKNOWN ? 0 : room_before(e, bytes_at);
    if (room > 0)
        depth_asked(e);
    uint64_t come = smaller(smaller(most, room), depth_left(e));
    if (sure_at != TIME_UNKNOWN) {
        struct comer c = comer_find(e, sure_at, DEMAND_SURE);
        bool may_wait = c.flags & ULMS_MOVE_DEAD && e->running >= NEAR_OPERATIONS && !e->overtaken;
        if (come == 0 || !may_wait)
            return fill_from(e, c, most);
    } else if (place_at <= soon(e) && (come == 0 || place_at < bytes_at))
        return fill_from(e, comer_find(e, place_at, DEMAND_PLACE), most);
    if (come > 0)
        return fill_from(e, comer_find(e, bytes_at, DEMAND_BYTES), come);
    uint64_t resting_at = room > 0 ? TIME_UNKNOWN : fill_demand_predicted(e, &e->resting, 1);
    if (resting_at != TIME_UNKNOWN)
        come = smaller(most, room_before(e, TIME_PREDICTED + e->history.end));
    return come > 0 ? fill_from(e, comer_find(e, resting_at, DEMAND_RESTING), come) : NULL;
}

/* --- whose frame is the next --- */

/* The k-th page, from 0, that is predicted to come. False: there are not so many. */
static bool predicted_heir(struct ulms_engine *e, uint64_t k, struct comer *c) {
    uint64_t places = 0, bytes = 0, wanted_at = TIME_UNKNOWN, alike = 0;
    uint8_t demand = DEMAND_NONE;
    for (uint64_t i = 0; i <= k; i++) {
        uint64_t place_at = fill_demand_predicted(e, &e->places, places + 1);
        uint64_t bytes_at = fill_demand_predicted(e, &e->bytes, bytes + 1);
        uint8_t next = place_at <= soon(e) && place_at < bytes_at ? DEMAND_PLACE : DEMAND_BYTES;
        uint64_t at = next == DEMAND_PLACE ? place_at : bytes_at;
        if (at == TIME_UNKNOWN)
            return false;
        alike = at == wanted_at && next == demand ? alike + 1 : 0; /* so many before it */
        wanted_at = at;
        demand = next;
        ++*(next == DEMAND_PLACE ? &places : &bytes);
    }
    *c = comer_find(e, wanted_at, demand);
    comer_skip(e, c, alike);
    return true;
}

/* The page that comes into the frame that is the next to be free, when `spare` are for others. */
static bool heir(struct ulms_engine *e, uint64_t spare, struct comer *c) {
    for (const struct operation *op = e->waiting.first; op; spare -= op->sure, op = op->after)
        if (spare < op->sure) {
            *c = comer_find(e, op->id.id, DEMAND_SURE);
            comer_skip(e, c, spare);
            return true;
        }
    return predicted_heir(e, spare, c);
}

/* --- out --- */

/* The first to leave of those whose leave time is after that time. */
struct leaver {
    struct page *page; /* NULL: nobody */
    uint64_t after;
};

static struct leaver first_dead(struct ulms_engine *e, uint64_t after) {
    return (struct leaver){after == TIME_UNKNOWN ? NULL : evict_queue_first_dead(e, after), after};
}

static struct leaver first_live(struct ulms_engine *e, uint64_t after) {
    return (struct leaver){after == TIME_UNKNOWN ? NULL : evict_queue_first_live(e, after), after};
}

/* Lane out 2, for sure pages; f and g are the times of that rule. Live pages leave only if idle ones would not do. */
static struct leaver leaves_for_sure(struct ulms_engine *e, uint64_t spare, uint64_t f) {
    struct leaver l = first_dead(e, f);
    bool nothing_ends = e->running == 0 && e->moves.count == 0;
    if (l.page)
        return l;
    uint64_t g = nothing_ends || e->overtaken ? f : fill_demand_sure(e, spare + e->counted[COUNT_IDLE] + 1);
    return first_live(e, g);
}

/* Lane out 3 to 5, for what is predicted; of the spare frames `sure` pages take one each. */
static struct leaver leaves_early(struct ulms_engine *e, uint64_t spare, uint64_t sure) {
    uint64_t free = spare - smaller(spare, sure);
    uint64_t bytes_at = fill_demand_predicted(e, &e->bytes, 1);
    uint64_t room = bytes_at == TIME_UNKNOWN ? 0 : room_before(e, bytes_at);
    struct leaver l = {0};
    uint64_t wanted_at = free < near_pages(e) && smaller(room, depth_left(e)) > free
                             ? fill_demand_predicted(e, &e->bytes, free + 1)
                             : TIME_UNKNOWN;
    if (wanted_at != TIME_UNKNOWN)
        l = first_dead(e, smaller(wanted_at, soon(e)));
    if (!l.page && free < near_pages(e) && fill_demand_predicted(e, &e->places, free + 1) <= soon(e))
        l = first_dead(e, soon(e));
    if (!l.page && bytes_at != TIME_UNKNOWN && sure + room < near_pages(e))
        l = first_live(e, fill_demand_predicted(e, &e->bytes, room + 1));
    if (l.page)
        return l;
    uint64_t crowded_at = crowded(e);
    return first_live(e, crowded_at > bytes_at ? TIME_UNKNOWN : crowded_at);
}

static struct leaver leaves(struct ulms_engine *e, bool *early) {
    uint64_t kept = e->used - e->evicting, sure = 0;
    *early = false;
    if (kept > e->budget)
        return (struct leaver){evict_queue_first(e, e->waiting.first ? e->waiting.first->id.id : 0), TIME_UNKNOWN};
    uint64_t spare = e->budget - kept;
    struct leaver l = leaves_for_sure(e, spare, fill_demand_sure(e, spare + 1));
    if (l.page)
        return l;
    *early = true;
    for (const struct operation *op = e->waiting.first; op; op = op->after)
        sure += op->sure;
    return leaves_early(e, spare, sure);
}

/* Who may leave and has the frame on which that page has a claim. NULL: nobody. */
static struct page *holder_for(struct ulms_engine *e, const struct page *comes) {
    uint64_t start = e->holder(e->holder_data, bytes_of(e, comes->number));
    struct page *p = start ? page_find(&e->table, start >> e->shift) : NULL;
    return p && p->allocated && page_may_leave(p) ? p : NULL;
}

/* The same, dead, of the first dead page with such a claim, of those for which frames may be free by now. */
static struct page *dead_holder(struct ulms_engine *e, bool *early) {
    uint64_t most = e->holder && e->used - e->evicting <= e->budget ? smaller(near_pages(e) + run_pages(e), HEIRS) : 0;
    struct comer c;
    for (uint64_t k = 0; k < most && heir(e, k, &c); k++) {
        struct page *p = c.page->live ? NULL : holder_for(e, c.page);
        if (p && !p->live && page_leave_time(e, p) > larger(c.wanted_at, soon(e))) {
            *early = !c.op;
            return p;
        }
    }
    return NULL;
}

/* Who may leave in its place, because the next page to come has a claim on that frame. NULL: nobody. */
static struct page *holder(struct ulms_engine *e, const struct leaver *l) {
    uint64_t kept = e->used - e->evicting;
    struct comer c;
    if (!e->holder || kept > e->budget || e->budget - kept >= HEIRS || !heir(e, e->budget - kept, &c))
        return NULL;
    struct page *p = holder_for(e, c.page);
    if (!p || page_leave_time(e, p) <= larger(l->after, c.wanted_at))
        return NULL;
    if (!p->live)
        return l->page->live ? NULL : p;
    bool crowd = l->page->live || crowded(e) != TIME_UNKNOWN;
    return crowd && !c.page->live && page_leave_time(e, p) > peak(e) ? p : NULL;
}

/* Pages that leave in one move. */
struct leaving {
    const struct page *first; /* to leave */
    uint32_t flags;
    uint64_t soonest, latest; /* leave time of the others */
    uint64_t most;
};

/* If the budget is passed by many, about as soon as the last of them leaves, as if pages were touched evenly. */
static struct leaving leaving_with(const struct ulms_engine *e, const struct page *p, bool alone) {
    uint64_t time = page_leave_time(e, p), now = TIME_PREDICTED + e->track.position, kept = e->used - e->evicting;
    struct leaving l = {p, evict_flags(e, p), time, time, alone ? 1 : run_pages(e)};
    if (alone || kept <= e->budget + e->run_pages)
        return l;
    l.most = smaller(kept - e->budget, e->shed_pages);
    if (time > now && time < TIME_UNKNOWN)
        l.soonest = time - (time - now) * (kept - e->budget) / kept;
    return l;
}

/* NULL: the page of that number does not leave with them. */
static inline struct page *leaves_with(struct ulms_engine *e, const struct leaving *l, uint64_t number) {
    struct page *p = page_find(&e->table, number);
    if (!p || !p->allocated || !page_may_leave(p) || p->live != l->first->live || p->dirty != l->first->dirty)
        return NULL;
    uint64_t time = page_leave_time(e, p);
    return time >= l->soonest && time <= l->latest && evict_flags(e, p) == l->flags ? p : NULL;
}

static struct move *next_evict(struct ulms_engine *e) {
    bool early;
    struct leaver l = leaves(e, &early);
    struct page *instead = l.page && !l.page->live ? NULL : dead_holder(e, &early);
    if (!instead && l.page)
        instead = holder(e, &l);
    struct page *p = instead ? instead : l.page;
    if (!p)
        return NULL;
    struct leaving all = leaving_with(e, p, instead != NULL);
    uint64_t start = p->number, end = start + 1;
    struct move *m = move_give_out(e, p, ULMS_EVICT, all.flags | (early ? ULMS_MOVE_EARLY : 0));
    if (!m)
        return NULL;
    set_moving(e, p, PAGE_EVICTING, m);
    for (; end - start < all.most && (p = leaves_with(e, &all, end)); end++)
        set_moving(e, p, PAGE_EVICTING, m);
    for (; end - start < all.most && all.most > run_pages(e) && (p = leaves_with(e, &all, start - 1)); start--)
        set_moving(e, p, PAGE_EVICTING, m);
    bool carries = !(all.flags & (ULMS_MOVE_DEAD | ULMS_MOVE_CLEAN));
    if (carries)
        e->sent_at = e->serial;
    for (uint64_t n = all.first->live ? end - start : 0; n > 0; n--)
        e->carried = e->carried << 1 | carries;
    m->out.start = bytes_of(e, start);
    m->out.bytes = bytes_of(e, end - start);
    e->evicting += end - start;
    return m;
}

/* NULL: none now, or no memory.
 *
 * It cannot wedge. The pages of the first waiting operation W never leave, and its absent pages are the first demanded,
 * but for those that rest. Moves end, because every page fails a bounded number of times between two admissions;
 * operations end by themselves. While W lacks a page, a frame is free (lane in brings the page), or a page may leave
 * (lane out gives it up in W's favour, at the latest when nothing moves or runs, or W is overtaken), or a move or
 * operation is under way and changes one of these. Otherwise W runs short. */
static struct move *next(struct ulms_engine *e, int lane) {
    return lane == ULMS_LANE_IN ? next_fill(e) : next_evict(e);
}

const struct policy_kind policy_ahead = {held_issued, held_admit, held_retired, next, held_moved};
