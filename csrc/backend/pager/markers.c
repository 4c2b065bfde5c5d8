/* Events behind operations and moves. The program's streams and contexts may be gone before what is behind them is
 * looked at: events outlive streams, and a context that is gone has no work left. */
#include <stdlib.h>

#include "backend/pager/pager.h"
#include "driver/real.h"

enum { TRIES = 3, AHEAD = 16 };

/* The markers of one stream, in order. The watcher's alone: it asks the driver without the lock. */
struct pager_queue {
    CUcontext context;
    uint64_t stream;
    uint32_t thread;
    int errors; /* in a row, of the first */
    struct pager_marker *first, **last;
    struct pager_queue *next;
};

static struct pager_marker *take_spare(struct pager *d, CUcontext context) {
    struct pager_marker *m = NULL;
    lock_take(&d->markers.lock);
    for (struct pager_marker **at = &d->markers.spare; !m && *at;)
        if ((*at)->context == context) {
            m = *at;
            *at = m->next;
        } else {
            at = &(*at)->next;
        }
    lock_drop(&d->markers.lock);
    return m;
}

void pager_mark_spare(struct pager *d, struct pager_marker *m) {
    lock_take(&d->markers.lock);
    m->next = d->markers.spare;
    d->markers.spare = m;
    lock_drop(&d->markers.lock);
}

void pager_marks_forget(struct pager *d, CUcontext context) {
    for (struct pager_marker *m; (m = take_spare(d, context));)
        free(m); /* the context takes the event with it */
}

/* In the marker's context. */
static CUevent event_new(const struct pager_marker *m) {
    CUevent event = NULL;
    struct pager_visit v = pager_enter(m->context);
    bool made = REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    pager_leave(v);
    return made ? event : NULL;
}

/* Into a spare marker, or a new one with its context alone. A copy may go into a stream of another context than the
 * thread's: the event has to be of the stream's. */
static bool record(struct pager_marker *m, CUstream stream) {
    for (int tries = 0; tries < TRIES; tries++) {
        if (!m->event)
            m->event = event_new(m);
        if (m->event && REAL(cuEventRecord, 0)(m->event, stream) == CUDA_SUCCESS)
            return true;
        if (m->event)
            REAL(cuEventDestroy_v2, 0)(m->event);
        m->event = NULL;
        REAL(cuStreamGetCtx, 0)(stream, &m->context);
    }
    return false;
}

/* NULL: no memory. */
static struct pager_marker *marker_new(CUcontext context) {
    struct pager_marker *m = calloc(1, sizeof *m);
    if (m)
        m->context = context;
    return m;
}

/* Trap: the driver makes no event of a context while another thread of the program copies pageable memory into one of
 * its streams, and that is at a gate. It launches, and records events that there are. */
static void make_ahead(struct pager *d, CUcontext context) {
    for (int i = 0; i < AHEAD && !patience_gated(); i++) {
        struct pager_marker *m = marker_new(context);
        if (!m || !(m->event = event_new(m))) {
            free(m);
            return;
        }
        pager_mark_spare(d, m);
    }
}

/* NULL: no memory. */
static struct pager_marker *marker_of(struct pager *d, CUcontext context) {
    struct pager_marker *m = take_spare(d, context);
    if (m)
        return m;
    make_ahead(d, context);
    return marker_new(context);
}

static void append(struct pager *d, struct pager_marker *m) {
    struct pager_markers *marks = &d->markers;
    m->next = NULL;
    lock_take(&marks->lock);
    if (!marks->first)
        marks->last = &marks->first;
    *marks->last = m;
    marks->last = &m->next;
    if (!__atomic_exchange_n(&marks->watched, true, __ATOMIC_RELAXED))
        condition_tell_one(&marks->recorded);
    lock_drop(&marks->lock);
}

void pager_marks_sleep(struct pager *d, uint64_t until_ns) {
    lock_take(&d->markers.lock);
    if (!d->markers.first && !pager_stops(d))
        condition_wait(&d->markers.recorded, &d->markers.lock, until_ns);
    lock_drop(&d->markers.lock);
}

void pager_marks_wake(struct pager *d) {
    lock_take(&d->markers.lock);
    condition_tell_all(&d->markers.recorded);
    lock_drop(&d->markers.lock);
}

/* Without one the watcher's question would be answered as if the context were gone. NULL: the driver does not tell. */
static CUcontext context_of(uint64_t stream) {
    CUcontext context = pager_current();
    if (!context)
        REAL(cuStreamGetCtx, 0)((CUstream)(uintptr_t)stream, &context);
    return context;
}

/* Moves of ordered policies follow the event; nobody waits for one that does not come. */
static void mark_ordered(struct pager *d, uint64_t ticket, CUevent event) {
    pager_lock(d);
    pager_window_mark(&d->window, ticket, event);
    if (!event)
        pager_give_up(d, "no events can be recorded");
    pager_notify(d);
    pager_unlock(d);
}

/* Recorded in a stream of the context, for what has that id. NULL: it could not be. */
static struct pager_marker *marker_in(struct pager *d, CUcontext context, uint64_t stream, enum pager_marked of,
                                      uint64_t id) {
    struct pager_marker *m = context ? marker_of(d, context) : NULL;
    if (!m || !record(m, (CUstream)(uintptr_t)stream)) {
        free(m);
        return NULL;
    }
    *m = (struct pager_marker){.event = m->event,
                               .context = m->context,
                               .stream = stream,
                               .thread = stream == (uintptr_t)CU_STREAM_PER_THREAD ? thread_self()->id : 0,
                               .of = of,
                               .id = id};
    return m;
}

static void mark_in(struct pager *d, uint64_t stream, uint64_t ticket) {
    struct pager_marker *m = marker_in(d, context_of(stream), stream, PAGER_OPERATION, ticket);
    if (!m || !pager_has_movers(d))
        mark_ordered(d, ticket, m ? m->event : NULL);
    if (m)
        append(d, m);
}

static bool gates_unseen; /* some were closed while nothing moved; atomic */

void pager_mark_gate(const struct op *op) {
    struct pager *d = pager_next(NULL);
    while (d && !pager_moves(d))
        d = pager_next(d);
    struct pager_marker *m = d ? marker_in(d, context_of(op->stream), op->stream, PAGER_GATE, 0) : NULL;
    if (!d)
        __atomic_store_n(&gates_unseen, true, __ATOMIC_RELAXED);
    if (!m)
        return;
    patience_gates(1);
    append(d, m);
}

bool pager_gates_unseen(void) {
    return __atomic_load_n(&gates_unseen, __ATOMIC_RELAXED);
}

void pager_mark(struct pager *d, const struct op *op, uint64_t ticket) {
    if (op->other_count > 0) {
        pager_lock(d);
        pager_window_share(&d->window, ticket, op->other_count);
        pager_unlock(d);
    }
    mark_in(d, op->stream, ticket);
    for (uint32_t i = 0; i < op->other_count; i++)
        mark_in(d, op->others[i], ticket);
}

bool pager_mark_move(struct pager *d, CUstream stream, uint64_t id, CUevent *event) {
    struct pager_marker *m = marker_in(d, d->movers.ordered.context, (uint64_t)(uintptr_t)stream, PAGER_MOVE, id);
    if (!m)
        return false;
    *event = m->event;
    append(d, m);
    return true;
}

static struct pager_queue *queue_of(struct pager *d, const struct pager_marker *m) {
    for (struct pager_queue *q = d->markers.queues; q; q = q->next)
        if (q->stream == m->stream && q->context == m->context && q->thread == m->thread)
            return q;
    struct pager_queue *q = calloc(1, sizeof *q);
    if (q) {
        *q = (struct pager_queue){.context = m->context, .stream = m->stream, .thread = m->thread};
        q->last = &q->first;
        q->next = d->markers.queues;
        d->markers.queues = q;
    }
    return q;
}

bool pager_marks_take(struct pager *d) {
    struct pager_markers *marks = &d->markers;
    lock_take(&marks->lock);
    for (struct pager_marker *m; (m = marks->first);) {
        struct pager_queue *q = queue_of(d, m);
        if (!q)
            break; /* no memory now: later */
        marks->first = m->next;
        m->next = NULL;
        *q->last = m;
        q->last = &m->next;
    }
    struct pager_queue *q = marks->queues;
    while (q && !q->first)
        q = q->next;
    bool pending = q || marks->first;
    __atomic_store_n(&marks->watched, pending, __ATOMIC_SEQ_CST);
    lock_drop(&marks->lock);
    return pending;
}

bool pager_gone(CUresult status) {
    return status == CUDA_ERROR_CONTEXT_IS_DESTROYED || status == CUDA_ERROR_INVALID_CONTEXT ||
           status == CUDA_ERROR_DEINITIALIZED;
}

/* False: not done. *errors counts answers that are none. */
static bool marker_ask(const struct pager_marker *m, int *errors) {
    CUresult status = REAL(cuCtxSetCurrent, 0)(m->context);
    if (status == CUDA_SUCCESS)
        status = REAL(cuEventQuery, 0)(m->event);
    if (status == CUDA_SUCCESS || pager_gone(status))
        return true;
    *errors += status != CUDA_ERROR_NOT_READY;
    return *errors == TRIES;
}

/* Takes the markers that are done off the front. Each is asked: threads that share a stream may enter theirs in another
 * order than they recorded them. */
static void poll_queue(struct pager *d, struct pager_queue *q, struct pager_marker **done) {
    struct pager_marker *last = NULL;
    for (struct pager_marker *m = q->first; m && marker_ask(m, &q->errors); m = m->next) {
        if (q->errors == TRIES) {
            pager_lock(d);
            pager_give_up(d, "the driver does not tell what is done");
            pager_unlock(d);
        }
        q->errors = 0;
        last = m;
    }
    if (!last)
        return;
    struct pager_marker *first = q->first;
    q->first = last->next;
    if (!q->first)
        q->last = &q->first;
    last->next = *done;
    *done = first;
}

struct pager_marker *pager_marks_poll(struct pager *d) {
    struct pager_marker *done = NULL;
    for (struct pager_queue **at = &d->markers.queues, *q; (q = *at);) {
        poll_queue(d, q, &done);
        if (q->first) {
            at = &q->next;
        } else {
            *at = q->next;
            free(q);
        }
    }
    return done;
}
