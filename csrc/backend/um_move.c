/* Moves that the engine gave out and that are not done. */
#include <stdlib.h>

#include "backend/um.h"
#include "observe/stats.h"

struct look {
    uint64_t oldest; /* every operation below it has retired */
    bool all_dead, any_kept, all_kept, any_written;
};

static void look_at(struct um_page *p, addr_t at, void *data) {
    struct look *l = data;
    (void)at;
    l->all_dead = l->all_dead && p->died && p->died <= l->oldest;
    l->any_kept = l->any_kept || p->kept;
    l->all_kept = l->all_kept && p->kept;
    l->any_written = l->any_written || p->written;
}

static void advise(struct um_page *p, addr_t at, void *data) {
    const struct um_move *m = data;
    (void)at;
    p->written = p->written || (p->kept && m->unkeep && m->m.kind == ULMS_FILL);
    p->kept = m->keep;
}

/* The engine takes memory that no operation is known to have touched for dead. Addresses may be hidden from us: content
 * is lost only where the framework has said that nobody wants it, and nothing issued before that still runs. */
static void judge(struct um_device *d, struct um_move *m) {
    addr_t start = m->m.start, end = m->m.start + m->m.bytes;
    struct look l = {.oldest = d->window.oldest, .all_dead = true, .all_kept = true};
    bool fill = m->m.kind == ULMS_FILL, keep = m->m.flags & ULMS_MOVE_KEEP;
    um_pages_visit(&d->ranges, start, end, look_at, &l);
    m->discard = !fill && m->m.flags & ULMS_MOVE_DEAD && l.all_dead && !d->unsure && um_can_discard();
    /* Advice back and forth on what is written now and then would cost more than it saves. A page that leaves loses its
     * advice: prefetched to the host with it, it would keep its place on the device beside the host's copy. */
    m->keep = d->kind->managed && fill && keep && !l.all_kept && !l.any_written;
    m->unkeep = d->kind->managed && l.any_kept && !(fill && keep);
    if (m->keep || m->unkeep)
        um_pages_visit(&d->ranges, start, end, advise, m);
    m->pieces = um_ranges_split(&d->ranges, start, end, m->piece, UM_RUN_PAGES);
}

struct um_move *um_move_take(struct um_device *d, int lane) {
    struct ulms_move given;
    if (!ulms_engine_next(d->engine, lane, &given))
        return NULL;
    struct um_move *m = calloc(1, sizeof *m);
    if (!m) {
        ulms_engine_moved(d->engine, given.id, 0);
        return NULL;
    }
    m->m = given;
    judge(d, m);
    m->next = d->under_way;
    d->under_way = m;
    stats_add(COUNT_moves, 1);
    return m;
}

bool um_move_issue(struct um_device *d, const struct um_move *m, CUstream stream) {
    int32_t to = m->m.kind == ULMS_FILL ? d->ordinal : DEVICE_NONE;
    bool ok = true;
    for (const struct um_piece *p = m->piece; p < m->piece + m->pieces; p++) {
        if (m->keep || m->unkeep)
            um_advise_mostly_read(p->start, p->bytes, d->ordinal, m->keep);
        ok = (m->discard ? um_discard(p->start, p->bytes, stream) : um_prefetch(p->start, p->bytes, to, stream)) && ok;
    }
    return ok;
}

struct um_move *um_move_find(struct um_device *d, uint64_t id) {
    struct um_move *m = d->under_way;
    while (m && m->m.id != id)
        m = m->next;
    return m;
}

void um_move_done(struct um_device *d, uint64_t id, bool ok) {
    struct um_move **at = &d->under_way;
    while (*at && (*at)->m.id != id)
        at = &(*at)->next;
    struct um_move *m = *at;
    if (!m)
        return;
    *at = m->next;
    free(m);
    ulms_engine_moved(d->engine, id, ok);
    d->progress++;
}

static bool overlaps(const struct um_device *d, addr_t start, uint64_t bytes, bool discards_only) {
    for (const struct um_move *m = d->under_way; m; m = m->next)
        if (m->m.start < start + bytes && start < m->m.start + m->m.bytes && (m->discard || !discards_only))
            return true;
    return false;
}

bool um_moves_any(const struct um_device *d, addr_t start, uint64_t bytes) {
    return overlaps(d, start, bytes, false);
}

void um_moves_wait(struct um_device *d, addr_t start, uint64_t bytes, bool discards_only) {
    struct um_patience patience = {0};
    bool patient = !discards_only;
    while (!d->stopping && (overlaps(d, start, bytes, true) || (patient && overlaps(d, start, bytes, false))))
        patient = (um_wait(d, &patience) || d->held) && patient;
}
