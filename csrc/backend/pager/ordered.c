/* Policies that decide when an operation is issued: the moves are issued then and there, by the program's thread, and
 * the device keeps their order by events. */
#include "backend/pager/pager.h"
#include "driver/real.h"
#include "observe/stats.h"

/* What is still under way there ends all the same. Those of a context that is gone went with it. */
static void close_lanes(struct pager *d) {
    CUstream streams[] = {d->movers.ordered.lane_stream[ULMS_LANE_IN], d->movers.ordered.lane_stream[ULMS_LANE_OUT],
                          d->movers.ordered.discard_stream};
    for (size_t i = 0; d->movers.ordered.lane_context && i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            REAL(cuStreamDestroy_v2, 0)(streams[i]);
}

/* Streams of the lanes, in the context of the operation that needs them first. */
static bool open_lanes(struct pager *d) {
    if (d->contexts.program && d->movers.ordered.lane_context == d->contexts.program &&
        d->movers.ordered.lane_stream[ULMS_LANE_IN] && d->movers.ordered.lane_stream[ULMS_LANE_OUT])
        return true;
    close_lanes(d);
    d->movers.ordered.lane_context = d->contexts.program;
    for (int lane = 0; lane < LANES; lane++)
        d->movers.ordered.lane_stream[lane] = d->contexts.program ? pager_stream_new() : NULL;
    d->movers.ordered.discard_stream = d->contexts.program ? pager_stream_new() : NULL;
    return d->movers.ordered.lane_stream[ULMS_LANE_IN] && d->movers.ordered.lane_stream[ULMS_LANE_OUT];
}

/* Another thread may be between issuing the operation and having it marked. */
static struct pager_operation settled(struct pager *d, uint64_t serial) {
    struct patience patience = {0};
    struct pager_operation o = pager_window_find(&d->window, serial);
    while (o.stage == PAGER_ISSUED && pager_moves(d) && pager_wait(d, &patience))
        o = pager_window_find(&d->window, serial);
    return o;
}

/* A wait that cannot be had costs speed, not content: nothing is discarded that may still be used. */
static void follow(CUstream stream, CUevent event) {
    if (event)
        REAL(cuStreamWaitEvent, 0)(stream, event, 0);
}

/* All that could use the content has retired, so that it waits for nothing: whoever gets the memory next may wait. */
static bool discard(struct pager *d, const struct pager_move *m) {
    return d->movers.ordered.discard_stream && d->kind->issue(d, m, d->movers.ordered.discard_stream) &&
           pager_stream_finish(d->movers.ordered.discard_stream);
}

static void issue(struct pager *d, struct pager_move *m, int lane) {
    uint64_t id = m->m.id;
    bool ok = open_lanes(d);
    stats_add(COUNT_moves, 1);
    if (m->discard) {
        pager_move_done(d, id, ok && discard(d, m));
        return;
    }
    if (ok && m->m.after)
        follow(d->movers.ordered.lane_stream[lane], settled(d, m->m.after).event);
    const struct pager_move *needed = m->m.needs ? pager_move_find(d, m->m.needs) : NULL;
    if (ok && needed)
        follow(d->movers.ordered.lane_stream[lane], needed->event);
    ok = ok && d->kind->issue(d, m, d->movers.ordered.lane_stream[lane]);
    if (!ok || !pager_mark_move(d, d->movers.ordered.lane_stream[lane], id, &m->event))
        pager_move_done(d, id, ok); /* nobody waits for an event that there is not */
}

/* Out before in: a fill may need the eviction that frees its frame. */
static void issue_all(struct pager *d) {
    static const int lanes[] = {ULMS_LANE_OUT, ULMS_LANE_IN};
    for (int i = 0; i < LANES; i++)
        for (struct pager_move *m; pager_moves(d) && (m = pager_move_take(d, lanes[i]));)
            issue(d, m, lanes[i]);
}

void pager_order_begin(struct pager *d) {
    struct patience patience = {0};
    while (d->movers.ordered.ordering && pager_moves(d) && pager_wait(d, &patience))
        ;
    d->movers.ordered.ordering = true;
}

void pager_order_end(struct pager *d) {
    d->movers.ordered.ordering = false;
    pager_wake(d);
}

void pager_order_leave(struct pager *d, CUcontext going) {
    if (d->movers.ordered.lane_context == going)
        d->movers.ordered.lane_context = NULL;
}

void pager_order(struct pager *d, const struct op *op, uint64_t serial) {
    uint64_t wait = 0;
    struct pager_visit v = pager_enter(d->contexts.program);
    if (!v.relaxed.on)
        pager_give_up(d, PAGER_UNRELAXED);
    issue_all(d);
    if (pager_moves(d))
        ulms_engine_admit(d->engine.core, serial, 0, &wait);
    const struct pager_move *last = wait ? pager_move_find(d, wait) : NULL;
    pager_leave(v);
    if (last)
        follow((CUstream)(uintptr_t)op->stream, last->event);
}
