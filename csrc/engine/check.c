/* The checker of the whole engine. */
#include "base/invariant.h"

#include "engine/engine.h"

static unsigned long long number(uint64_t n) {
    return n;
}

static void check_page(struct ulms_engine *e, struct page *p) {
    bool moving = p->state == PAGE_FILLING || p->state == PAGE_EVICTING;
    const struct move *m = (const struct move *)registry_find(&e->moves, p->move);
    uint64_t start = bytes_of(e, p->number);
    INVARIANT(moving == (p->move != 0), "page 0x%llx", number(p->number));
    INVARIANT(!moving || (m && start >= m->out.start && start < m->out.start + m->out.bytes &&
                          m->out.kind == (p->state == PAGE_FILLING ? ULMS_FILL : ULMS_EVICT)),
              "page 0x%llx, move %llu", number(p->number), number(p->move));
    INVARIANT(!moving || p->pins == 0, "page 0x%llx moves while operations run on it", number(p->number));
    INVARIANT(p->live || !p->dirty, "page 0x%llx is dead and dirty", number(p->number));
    INVARIANT(!p->waiter || p->waiter->queued, "page 0x%llx", number(p->number));
    INVARIANT(p->failures <= FAILURES_MAX, "page 0x%llx", number(p->number));
    INVARIANT(p->rests == (p->state == PAGE_ABSENT && p->in_place && page_streamed(e, p)), "page 0x%llx",
              number(p->number));
    INVARIANT(!p->in_place || p->state == PAGE_ABSENT || p->state == PAGE_FILLING, "page 0x%llx lies",
              number(p->number));
    int expected = p->state != PAGE_ABSENT || p->pins > 0 ? DEMAND_NONE
                   : p->rests  ? (p->waiter || p->failures > 0 ? DEMAND_NONE : DEMAND_RESTING)
                   : p->waiter ? (p->failures < FAILURES_MAX ? DEMAND_SURE : DEMAND_NONE)
                   : page_time(e, p) == TIME_UNKNOWN || p->failures > 0 ? DEMAND_NONE
                   : p->live                                            ? DEMAND_BYTES
                                                                        : DEMAND_PLACE;
    int told = p->demand > DEMAND_SURE && p->epoch != e->track.epoch ? DEMAND_NONE : p->demand;
    INVARIANT(told == expected, "page 0x%llx: demand %d", number(p->number), told);
}

static void check_pages(struct ulms_engine *e) {
    uint64_t at = 0, allocated = 0, used = 0, filling = 0, evicting = 0, window = 0;
    uint64_t here = 0, away = 0, idle = 0, places = 0, bytes = 0, resting = 0, lying = 0, untouched = 0;
    for (struct page *p; (p = page_walk(&e->table, &at, UINT64_MAX));) {
        check_page(e, p);
        allocated++;
        used += p->state != PAGE_ABSENT;
        filling += p->state == PAGE_FILLING;
        evicting += p->state == PAGE_EVICTING;
        window += p->window > 0;
        bool is_away = (!p->waiter || p->rests) && (p->state == PAGE_ABSENT || p->state == PAGE_EVICTING);
        here += p->live && !is_away;
        away += p->live && is_away;
        idle += !p->live && !p->waiter && p->state == PAGE_RESIDENT;
        places += p->demand == DEMAND_PLACE && p->epoch == e->track.epoch;
        bytes += p->demand == DEMAND_BYTES && p->epoch == e->track.epoch;
        resting += p->demand == DEMAND_RESTING && p->epoch == e->track.epoch;
        lying += p->in_place;
        untouched += p->untouched;
    }
    INVARIANT(allocated == e->pages, "%llu pages, counted %llu", number(allocated), number(e->pages));
    INVARIANT(used == e->used, "%llu frames, counted %llu", number(used), number(e->used));
    INVARIANT(filling == e->filling && evicting == e->evicting, "%llu filling, %llu evicting", number(filling),
              number(evicting));
    INVARIANT(window == e->window_pages, "%llu pages in the window", number(window));
    INVARIANT(lying == e->lying && resting == e->resting.total, "%llu pages lie, %llu rest", number(lying),
              number(resting));
    INVARIANT(untouched == e->depth.untouched, "%llu pages untouched", number(untouched));
    INVARIANT(places == e->places.total && bytes == e->bytes.total, "%llu dead and %llu live pages predicted",
              number(places), number(bytes));
    INVARIANT(!policy_holds(e->policy) ||
                  (here == e->counted[COUNT_HERE] && away == e->counted[COUNT_AWAY] && idle == e->counted[COUNT_IDLE]),
              "%llu pages here, %llu away, %llu idle", number(here), number(away), number(idle));
    evict_queue_check(e);
}

static void check_operations(struct ulms_engine *e) {
    uint64_t running = 0, queued = 0, serial = 0;
    for (size_t i = 0; i < e->operations.capacity; i++)
        for (struct registered *one = e->operations.slots[i]; one; one = one->next) {
            const struct operation *op = (const struct operation *)one;
            uint64_t sure = 0;
            running += policy_holds(e->policy) && !op->queued;
            queued += op->queued;
            for (size_t j = 0; j < op->count; j++) {
                const struct entry *x = &op->entries[j];
                INVARIANT(j == 0 || x->page->number > x[-1].page->number, "operation %llu", number(one->id));
                if (!entry_holds(x))
                    continue;
                bool waited = x->page->waiter && x->page->waiter->id.id <= one->id;
                INVARIANT(!op->queued || !policy_holds(e->policy) || waited, "operation %llu", number(one->id));
                INVARIANT(op->queued || !policy_holds(e->policy) || x->page->pins > 0, "operation %llu",
                          number(one->id));
                sure += x->page->demand == DEMAND_SURE && x->page->waiter == op;
                INVARIANT(j >= op->cursor || x->page->demand != DEMAND_SURE || x->page->waiter != op,
                          "operation %llu wants entry %zu", number(one->id), j);
            }
            INVARIANT(sure == op->sure, "operation %llu wants %llu", number(one->id), number(sure));
        }
    INVARIANT(running == e->running, "%llu run", number(running));
    for (struct operation *op = (policy_holds(e->policy) ? e->waiting : e->window).first; op;
         op = op->after, queued--) {
        INVARIANT(op->id.id > serial, "operation %llu after %llu", number(op->id.id), number(serial));
        serial = op->id.id;
    }
    INVARIANT(queued == 0, "%llu wait in no queue", number(queued));
}

static bool touches(const struct ulms_engine *e, uint64_t position, const struct page *p) {
    const struct past *op = history_at(&e->history, position);
    for (uint32_t i = 0; i < op->count; i++)
        if (history_record(&e->history, op->records + i)->page == p)
            return true;
    return false;
}

/* So many pages are predicted until that position, and no more. */
static void check_demand(const struct ulms_engine *e, struct fill_demand *d, uint64_t position, uint64_t pages) {
    uint64_t time = TIME_PREDICTED + position;
    INVARIANT((pages == 0 || fill_demand_predicted(e, d, pages) <= time) &&
                  fill_demand_predicted(e, d, pages + 1) > time,
              "%llu pages are predicted until %llu", number(pages), number(position));
}

/* The next touch of a page is the first after p that touches it; the most live pages from p to anywhere. */
static void check_track(struct ulms_engine *e) {
    const struct history *h = &e->history;
    INVARIANT(e->track.on || e->places.total + e->bytes.total == 0, "nothing is predicted off track");
    if (!e->track.on)
        return;
    INVARIANT(e->track.position >= h->first && e->track.position + 1 < h->end, "p %llu", number(e->track.position));
    uint64_t places = 0, bytes = 0;
    uint32_t most = past_most(history_at(h, e->track.position));
    for (uint64_t i = e->track.position + 1; i < h->end; i++) {
        const struct past *op = history_at(h, i);
        INVARIANT(peaks_most(&e->peaks, e->track.position, i) == most, "%u pages live until %llu", most, number(i));
        INVARIANT(peaks_above(&e->peaks, e->track.position, i, most) == i, "more are live until %llu", number(i));
        most = past_most(op) > most ? past_most(op) : most;
        INVARIANT(peaks_above(&e->peaks, e->track.position, i + 1, most - 1) <= i, "%u are live", most);
        for (uint32_t j = 0; j < op->count; j++) {
            const struct page *p = history_record(h, op->records + j)->page;
            INVARIANT(p->epoch == e->track.epoch && p->next > e->track.position && p->next <= i,
                      "page 0x%llx: next %llu at %llu", number(p->number), number(p->next), number(i));
            places += p->next == i && p->demand == DEMAND_PLACE;
            bytes += p->next == i && p->demand == DEMAND_BYTES;
        }
        check_demand(e, &e->places, i, places);
        check_demand(e, &e->bytes, i, bytes);
    }
    uint64_t at = 0;
    for (struct page *p; (p = page_walk(&e->table, &at, UINT64_MAX));)
        INVARIANT(p->epoch != e->track.epoch || p->next == 0 || touches(e, p->next, p), "page 0x%llx",
                  number(p->number));
}

void engine_check(struct ulms_engine *e) {
    check_pages(e);
    check_operations(e);
    check_track(e);
}
