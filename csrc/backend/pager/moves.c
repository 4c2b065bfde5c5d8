/* Moves that the engine gave out and that are not done. */
#include <stdlib.h>

#include "backend/pager/pager.h"
#include "base/log.h"
#include "observe/format.h"
#include "observe/trace.h"

struct look {
    const struct pager_move *m;
    uint64_t oldest; /* every operation below it has retired */
    bool all_dead, any_in_place;
    uint8_t advice[PAGER_RUN_PAGES]; /* by page */
    size_t pages;
};

static void look_at(struct pager_page *p, addr_t at, void *data) {
    struct look *l = data;
    (void)at;
    l->all_dead = l->all_dead && p->died && p->died <= l->oldest;
    l->any_in_place = l->any_in_place || p->in_place;
    l->advice[l->pages++] = p->advice;
}

static void advise(struct pager_page *p, addr_t at, void *data) {
    struct look *l = data;
    (void)at;
    p->advice = l->advice[l->pages++];
    p->in_place = l->m->in_place;
    p->lingers = p->lingers && l->m->m.kind != ULMS_FILL;
}

/* The engine takes memory that no operation is known to have touched for dead. Addresses may be hidden from us: content
 * is lost only where the framework has said that nobody wants it, and nothing issued before that still runs. */
static void judge(struct pager *d, struct pager_move *m) {
    addr_t start = m->m.start, end = m->m.start + m->m.bytes;
    struct look l = {.m = m, .oldest = d->window.oldest, .all_dead = true};
    bool fill = m->m.kind == ULMS_FILL;
    pager_pages_visit(&d->memory.ranges, start, end, look_at, &l);
    m->discard =
        !fill && m->m.flags & ULMS_MOVE_DEAD && l.all_dead && !d->phase.prior.incomplete && d->kind->discards();
    int advised = d->kind->managed ? ulms_advise(l.advice, l.pages, m->m.kind, m->m.flags) : 0;
    m->keep = advised == ULMS_ADVISE_KEEP;
    m->unkeep = advised == ULMS_ADVISE_UNKEEP;
    m->in_place = d->kind->managed && !fill && m->m.flags & ULMS_MOVE_IN_PLACE;
    m->recall = l.any_in_place && !m->in_place;
    l.pages = 0;
    pager_pages_visit(&d->memory.ranges, start, end, advise, &l);
    m->pieces = pager_ranges_split(&d->memory.ranges, start, end, m->piece, PAGER_RUN_PAGES);
}

struct pager_move *pager_move_take(struct pager *d, int lane) {
    struct ulms_move given;
    if (pager_opaque_runs(d) || !ulms_engine_next(d->engine.core, lane, &given))
        return NULL;
    struct pager_move *m = calloc(1, sizeof *m);
    if (!m) {
        ulms_engine_moved(d->engine.core, given.id, 0);
        return NULL;
    }
    m->m = given;
    m->begun_ns = trace_on ? clock_ns() : 0;
    judge(d, m);
    m->next = d->moves.under_way;
    d->moves.under_way = m;
    return m;
}

uint64_t pager_move_other(struct pager *d, addr_t start) {
    struct pager_move *m = calloc(1, sizeof *m);
    if (!m)
        return 0;
    *m = (struct pager_move){.m = {.id = UINT64_MAX - d->moves.others++, .start = start, .bytes = page_bytes},
                             .begun = true,
                             .vacated = true,
                             .next = d->moves.under_way};
    d->moves.under_way = m;
    return m->m.id;
}

struct pager_move *pager_move_find(struct pager *d, uint64_t id) {
    struct pager_move *m = d->moves.under_way;
    while (m && m->m.id != id)
        m = m->next;
    return m;
}

void pager_move_vacated(struct pager *d, uint64_t id) {
    struct pager_move *m = pager_move_find(d, id);
    if (!m)
        return;
    m->vacated = true;
    ulms_engine_moved(d->engine.core, id, 1);
    pager_progressed(d);
}

/* The engine knows already that it is done. */
static void trace(const struct pager *d, const struct pager_move *m, bool ok) {
    struct ulms_engine_stats now;
    ulms_engine_stats(d->engine.core, &now);
    trace_move(d->ordinal, &m->m, (m->discard ? MOVE_DISCARDED : 0) | (ok ? 0 : MOVE_FAILED), m->begun_ns,
               now.resident_bytes);
}

static void linger(struct pager_page *p, addr_t at, void *data) {
    (void)at;
    (void)data;
    p->lingers = true;
}

void pager_move_done(struct pager *d, uint64_t id, bool ok) {
    struct pager_move **at = &d->moves.under_way;
    while (*at && (*at)->m.id != id)
        at = &(*at)->next;
    struct pager_move *m = *at;
    if (!m)
        return;
    *at = m->next;
    if (m->abandoned) {
        free(m);
        pager_progressed(d);
        return;
    }
    if (ok && m->discard && d->kind->managed && d->kind->discards())
        pager_pages_visit(&d->memory.ranges, m->m.start, m->m.start + m->m.bytes, linger, NULL);
    if (!m->vacated)
        ulms_engine_moved(d->engine.core, id, ok);
    if (trace_on && m->begun_ns)
        trace(d, m, ok);
    free(m);
    pager_progressed(d);
}

static bool overlap(const struct pager_move *m, addr_t start, uint64_t bytes) {
    return m->m.start < start + bytes && start < m->m.start + m->m.bytes;
}

/* Which moves under way are asked for. */
static bool is_any(const struct pager_move *m) {
    (void)m;
    return true;
}

static bool goes_on(const struct pager_move *m) {
    return !m->abandoned;
}

static bool discards(const struct pager_move *m) {
    return m->discard && !m->abandoned;
}

static bool is_reborn(const struct pager_move *m) {
    return m->reborn && !m->abandoned;
}

static bool is_vacated(const struct pager_move *m) {
    return m->vacated;
}

static bool any(const struct pager *d, addr_t start, uint64_t bytes, bool (*is)(const struct pager_move *)) {
    const struct pager_move *m = d->moves.under_way;
    while (m && !(overlap(m, start, bytes) && is(m)))
        m = m->next;
    return m != NULL;
}

void pager_moves_pause(struct pager *d, bool pause) {
    d->moves.paused += pause ? 1 : -1;
}

void pager_moves_reborn(struct pager *d, addr_t start, uint64_t bytes) {
    for (struct pager_move *m = d->moves.under_way; m; m = m->next)
        m->reborn = m->reborn || (m->discard && overlap(m, start, bytes));
}

bool pager_moves_any(const struct pager *d, addr_t start, uint64_t bytes) {
    return any(d, start, bytes, is_any);
}

uint64_t pager_moves_bytes(const struct pager *d) {
    uint64_t bytes = 0;
    for (const struct pager_move *m = d->moves.under_way; m; m = m->next)
        bytes += m->m.bytes;
    return bytes;
}

bool pager_moves_go_on(const struct pager *d, addr_t start, uint64_t bytes) {
    return any(d, start, bytes, goes_on);
}

void pager_moves_abandon(struct pager *d, addr_t start, uint64_t bytes) {
    for (struct pager_move *m = d->moves.under_way; m; m = m->next) {
        bool binds = m->begun && (m->discard || !d->kind->managed);
        if (m->abandoned || binds || !overlap(m, start, bytes))
            continue;
        m->abandoned = true;
        ulms_engine_moved(d->engine.core, m->m.id, 0);
    }
}

/* Movers end what they have begun, also when the process ends; who watches ordered moves does not. */
static bool ends(const struct pager *d) {
    return !pager_stops(d) || (pager_has_movers(d) && phase_now(&d->phase.now) != PHASE_STUCK);
}

/* What loses content, or maps pages anew, is done by the driver alone. */
static bool wait_needed(struct pager *d, addr_t start, uint64_t bytes, bool (*is)(const struct pager_move *)) {
    struct patience patience = {.what = PATIENCE_NEED};
    while (ends(d) && any(d, start, bytes, is))
        if (!pager_wait(d, &patience)) {
            log_error("device %d: a move has not ended for %llu s: memory that it is of cannot be used", d->ordinal,
                      (unsigned long long)(PATIENCE_MOST_NS / 1000000000u));
            return false;
        }
    return true;
}

bool pager_moves_wait(struct pager *d, addr_t start, uint64_t bytes, bool discards_only) {
    struct patience patience = {0};
    while (!discards_only && ends(d) && any(d, start, bytes, goes_on) && pager_wait(d, &patience))
        ;
    if (!discards_only)
        pager_moves_abandon(d, start, bytes);
    return wait_needed(d, start, bytes, discards_only ? discards : goes_on);
}

bool pager_moves_wait_reborn(struct pager *d) {
    return wait_needed(d, 0, UINT64_MAX, is_reborn);
}

bool pager_moves_wait_mapped(struct pager *d, addr_t start, uint64_t bytes, bool *waited) {
    *waited = any(d, start, bytes, is_vacated);
    return wait_needed(d, start, bytes, is_vacated);
}
