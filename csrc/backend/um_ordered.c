/* Policies that decide when an operation is issued: the moves are issued then and there, by the program's thread, and
 * the device keeps their order by events. */
#include "backend/um.h"

/* Streams of the lanes, in the context of the operation that needs them first. */
static bool open_lanes(struct um_device *d) {
    if (d->context && d->lane_context == d->context && d->lane_stream[ULMS_LANE_IN] && d->lane_stream[ULMS_LANE_OUT])
        return true;
    d->lane_context = d->context;
    for (int lane = 0; lane < LANES; lane++)
        d->lane_stream[lane] = d->context ? um_stream_new() : NULL;
    d->discard_stream = d->context ? um_stream_new() : NULL;
    return d->lane_stream[ULMS_LANE_IN] && d->lane_stream[ULMS_LANE_OUT];
}

/* Another thread may be between issuing the operation and having it marked. */
static struct um_operation settled(struct um_device *d, uint64_t serial) {
    struct um_patience patience = {0};
    struct um_operation o = um_window_find(&d->window, serial);
    while (o.stage == UM_ISSUED && d->moving && !um_stalled(d) && um_wait(d, &patience))
        o = um_window_find(&d->window, serial);
    return o;
}

/* A wait that cannot be had costs speed, not content: nothing is discarded that may still be used. */
static void follow(CUstream stream, CUevent event) {
    if (event)
        REAL(cuStreamWaitEvent, 0)(stream, event, 0);
}

/* All that could use the content has retired, so that it waits for nothing: whoever gets the memory next may wait. */
static bool discard(struct um_device *d, const struct um_move *m) {
    return d->discard_stream && d->kind->issue(d, m, d->discard_stream) && um_stream_finish(d->discard_stream);
}

static void issue(struct um_device *d, struct um_move *m, int lane) {
    uint64_t id = m->m.id;
    bool ok = open_lanes(d);
    if (m->discard) {
        um_move_done(d, id, ok && discard(d, m));
        return;
    }
    if (ok && m->m.after)
        follow(d->lane_stream[lane], settled(d, m->m.after).event);
    const struct um_move *needed = m->m.needs ? um_move_find(d, m->m.needs) : NULL;
    if (ok && needed)
        follow(d->lane_stream[lane], needed->event);
    ok = ok && d->kind->issue(d, m, d->lane_stream[lane]);
    if (!ok || !um_mark_move(d, d->lane_stream[lane], id, &m->event))
        um_move_done(d, id, ok); /* nobody waits for an event that there is not */
}

/* Out before in: a fill may need the eviction that frees its frame. */
static void issue_all(struct um_device *d) {
    static const int lanes[] = {ULMS_LANE_OUT, ULMS_LANE_IN};
    for (int i = 0; i < LANES; i++)
        for (struct um_move *m; d->moving && (m = um_move_take(d, lanes[i]));)
            issue(d, m, lanes[i]);
}

void um_order_begin(struct um_device *d) {
    struct um_patience patience = {0};
    while (d->ordering && d->moving)
        um_wait(d, &patience);
    d->ordering = true;
}

void um_order_end(struct um_device *d) {
    d->ordering = false;
    um_wake(d);
}

void um_order(struct um_device *d, const struct op *op, uint64_t serial) {
    uint64_t wait = 0;
    struct um_visit v = um_enter(d->context);
    issue_all(d);
    if (d->moving)
        ulms_engine_admit(d->engine, serial, 0, &wait);
    const struct um_move *last = wait ? um_move_find(d, wait) : NULL;
    um_leave(v);
    if (last)
        follow((CUstream)(uintptr_t)op->stream, last->event);
}
