/* Policies that decide when an operation is issued: the moves are issued then and there, by the program's thread, and
 * the device keeps their order by events. */
#include "backend/pager/pager.h"
#include "driver/real.h"
#include "observe/stats.h"

/* In the context of the operation that needs it first. What is still under way in another ends all the same. */
static CUstream stream_of(struct pager *d) {
    struct pager_ordered *o = &d->movers.ordered;
    if (o->stream && o->context == d->contexts.program)
        return o->stream;
    if (o->stream)
        REAL(cuStreamDestroy_v2, 0)(o->stream);
    o->context = d->contexts.program;
    o->stream = o->context ? pager_stream_new() : NULL;
    return o->stream;
}

/* Another thread may be between issuing the operation and having it marked. */
static struct pager_operation settled(struct pager *d, uint64_t serial) {
    struct patience patience = {0};
    struct pager_operation o = pager_window_find(&d->window, serial);
    while (o.stage == PAGER_ISSUED && pager_moves(d) && pager_wait(d, &patience))
        o = pager_window_find(&d->window, serial);
    return o;
}

/* A wait that cannot be had costs speed, not content. */
static void follow(CUstream stream, CUevent event) {
    if (event)
        REAL(cuStreamWaitEvent, 0)(stream, event, 0);
}

static void issue(struct pager *d, struct pager_move *m) {
    CUstream stream = stream_of(d);
    stats_add(COUNT_moves, 1);
    if (stream && m->m.after)
        follow(stream, settled(d, m->m.after).event);
    bool ok = stream && d->kind->issue(d, m, stream);
    if (!ok || !pager_mark_move(d, stream, m->m.id, &m->event))
        pager_move_done(d, m->m.id, ok); /* nobody waits for an event that there is not */
}

bool pager_order_begin(struct pager *d) {
    struct patience patience = {0};
    if (pager_has_movers(d))
        return false;
    while (d->movers.ordered.ordering && pager_moves(d) && pager_wait(d, &patience))
        ;
    d->movers.ordered.ordering = true;
    return true;
}

/* A call that moves may wait for a copy of pageable memory that stands at a gate, and what waits for a page that an
 * operation behind a gate used stands there, too. So moves wait until no gate is closed, or come with a later
 * operation: kernels bring their pages without them. */
static bool no_gate(struct pager *d) {
    struct patience patience = {0};
    while (patience_gated() && pager_moves(d) && pager_wait(d, &patience))
        ;
    return !patience_gated();
}

static void issue_all(struct pager *d, const struct op *op, uint64_t serial) {
    uint64_t wait = 0;
    ulms_engine_admit(d->engine.core, serial, 0, &wait);
    if (wait && !no_gate(d))
        return;
    struct pager_visit v = pager_enter(d->contexts.program);
    if (!v.relaxed.on)
        pager_give_up(d, PAGER_UNRELAXED);
    pager_blocks_hear(d);
    for (struct pager_move *m; pager_moves(d) && !patience_gated() && (m = pager_move_take(d, ULMS_LANE_IN));
         pager_blocks_hear(d))
        issue(d, m);
    const struct pager_move *last = wait ? pager_move_find(d, wait) : NULL;
    pager_leave(v);
    if (last)
        follow((CUstream)(uintptr_t)op->stream, last->event);
}

void pager_order_end(struct pager *d, const struct op *op, uint64_t serial) {
    if (serial)
        issue_all(d, op, serial);
    d->movers.ordered.ordering = false;
    pager_wake(d);
}

void pager_order_leave(struct pager *d, CUcontext going) {
    if (d->movers.ordered.context == going)
        d->movers.ordered.stream = NULL; /* it goes with it */
}
