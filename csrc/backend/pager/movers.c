/* Movers: threads that take moves of held policies and wait until each is done, as its kind has it. The first of each
 * lane begins when pages begin to move; the watcher starts others while moves wait for one. */

#include "backend/pager/pager.h"
#include "base/options.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { FEW_MOVERS = 3 };
/* For each context of our own so many bytes of the device, and of what the program may use: one takes 264 MiB of an
 * H200. With three, pages left at 10 GB/s there beside kernels, with five at 14, with eight at 16. */
#define CONTEXT_FOR      ((uint64_t)4 << 30)
#define CONTEXT_FOR_USED ((uint64_t)512 << 20)

/* The driver holds a context's lock while a prefetch does its page work, for milliseconds: launches of the program
 * would wait for it, and other movers do, one with little to do through a hundred calls of another. So movers of
 * managed memory, which is every context's, have contexts of their own; where there can be none they share another's.
 * Under the lock, which is released meanwhile. */
static CUcontext context_of(struct pager_mover *self) {
    struct pager *d = self->device;
    struct pager_own *own = self->own;
    if (own && !own->asked) {
        own->asked = true;
        pager_unlock(d);
        CUcontext made = pager_context_new(d->ordinal);
        pager_lock(d);
        own->context = made;
    }
    return own && own->context ? own->context : pager_context(d);
}

CUcontext pager_context(const struct pager *d) {
    return d->movers.own[0].context ? d->movers.own[0].context : d->contexts.program;
}

/* What a mover issues into; of one context. Streams that a call left something queued in rest until others were used:
 * into a stream that is not idle the driver would put off even a prefetch's page work. */
enum { SEAT_STREAMS = 4 };
struct seat {
    CUcontext context;
    uint64_t epoch;
    struct seat_stream {
        CUstream stream; /* NULL: not made yet */
        bool queued;
    } at[SEAT_STREAMS];
    int next;
};

static void seat_in(struct seat *s, CUcontext context, uint64_t epoch) {
    if (s->context != context || s->epoch != epoch)
        *s = (struct seat){.context = context, .epoch = epoch};
}

/* An idle stream. NULL: refused. */
static CUstream sit(struct seat *s) {
    struct seat_stream *at = &s->at[s->next];
    if (at->queued && !pager_stream_finish(at->stream))
        at->stream = NULL;
    at->queued = false;
    if (!at->stream && REAL(cuCtxSetCurrent, 0)(s->context) == CUDA_SUCCESS)
        at->stream = pager_stream_new();
    return at->stream;
}

static bool issue_and_wait(struct pager *d, const struct pager_move *m, struct seat *s) {
    CUstream stream = sit(s);
    return stream && d->kind->issue(d, m, stream) && (d->kind->waits || pager_stream_finish(stream));
}

/* Each piece is a call of its own. */
static bool issue_at_once(struct pager *d, const struct pager_move *m, struct seat *s) {
    struct pager_move one = *m;
    bool good = true;
    one.pieces = 1;
    for (int i = 0; i < m->pieces; i++) {
        CUstream stream = sit(s);
        one.piece[0] = m->piece[i];
        good = stream && d->kind->issue(d, &one, stream) && good;
        s->at[s->next].queued = stream != NULL;
        s->next = (s->next + 1) % SEAT_STREAMS;
    }
    return good;
}

static struct pager_move *mover_take(struct pager *d, int lane) {
    pager_blocks_hear(d);
    return pager_move_take(d, lane);
}

/* A woken thread costs more than most operations do, so movers are woken for moves alone: whoever changed something
 * looks for them. */
static void hand_out(struct pager *d, int lane) {
    struct pager_lane *l = &d->movers.lanes[lane];
    bool can = pager_moves(d) && pager_context(d);
    for (struct pager_move *m; can && l->idle > 0 && (m = mover_take(d, lane)); l->idle--) {
        if (!l->first)
            l->last = &l->first;
        *l->last = m;
        l->last = &m->after;
        condition_tell_one(&l->work);
    }
    if (can && l->idle == 0 && l->to_start > 0 && !__atomic_load_n(&d->markers.watched, __ATOMIC_RELAXED))
        pager_marks_wake(d); /* the watcher starts more */
}

void pager_hand_out(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++)
        hand_out(d, lane);
}

void pager_wake(struct pager *d) {
    pager_held_ask(d);
    pager_notify(d);
    pager_hand_out(d);
}

void pager_stir(struct pager *d) {
    if (!__atomic_load_n(&d->markers.watched, __ATOMIC_RELAXED) || patience_gone())
        pager_hand_out(d);
}

void pager_movers_stop(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++)
        condition_tell_all(&d->movers.lanes[lane].work);
    for (int lane = 0; lane < LANES; lane++)
        for (struct pager_move *m; (m = d->movers.lanes[lane].first);) {
            d->movers.lanes[lane].first = m->after;
            m->begun_ns = 0; /* it did not begin: neither counters nor trace have it */
            pager_move_done(d, m->m.id, false);
        }
}

/* One that was handed out, though another mover was chosen for it that is not awake yet: that one stays idle. */
static struct pager_move *take_ready(struct pager_lane *l) {
    struct pager_move *m = l->first;
    if (m) {
        l->first = m->after;
        l->idle++;
    }
    return m;
}

/* Waits for one, and tells that the one before is done. Under the lock. NULL: the end. */
static struct pager_move *next_move(struct pager_mover *self) {
    struct pager *d = self->device;
    struct pager_lane *l = &d->movers.lanes[self->lane];
    struct pager_move *m = pager_stops(d) ? NULL : take_ready(l);
    if (!m && !pager_stops(d) && context_of(self) && pager_moves(d))
        m = mover_take(d, self->lane);
    l->idle += !m;
    pager_wake(d);
    if (m)
        return m;
    while (!pager_stops(d) && !l->first)
        pager_worker_sleep(d, &l->work);
    if ((m = l->first))
        l->first = m->after;
    return pager_stops(d) ? NULL : m;
}

static void *move(void *data) {
    struct pager_mover *self = data;
    struct pager *d = self->device;
    struct seat seat = {0};
    pager_lock(d);
    for (struct pager_move *m = self->first ? self->first : next_move(self); m; m = next_move(self)) {
        CUcontext context = context_of(self);
        uint64_t epoch = context == d->contexts.program ? d->contexts.epoch : 0; /* ours does not go with a program's */
        if (m->abandoned) {
            pager_move_done(d, m->m.id, false);
            continue;
        }
        m->begun = true;
        struct pager_move given = *m; /* others change m, under the lock */
        stats_add(COUNT_moves, 1);
        pager_unlock(d);
        uint64_t began = clock_ns();
        bool at_once = d->kind->fills_at_once && given.m.kind == ULMS_FILL;
        seat_in(&seat, context, epoch);
        bool ok = (at_once ? issue_at_once : issue_and_wait)(d, &given, &seat);
        stats_add(self->lane == ULMS_LANE_IN ? COUNT_in_ns : COUNT_out_ns, clock_ns() - began);
        pager_lock(d);
        pager_move_done(d, given.m.id, ok);
    }
    pager_unlock(d);
    return NULL;
}

/* --- their life --- */

/* How many contexts of our own are for the movers: each takes memory of the device that no limit counts. */
static int own_contexts(const struct pager *d) {
    if (!d->kind->managed)
        return 0;
    uint64_t contexts = pager_device_bytes(d->ordinal) / CONTEXT_FOR, used = d->budget.capacity / CONTEXT_FOR_USED;
    contexts = used < contexts ? used : contexts;
    return contexts < 1 ? 1 : contexts < MOVER_MAX ? (int)contexts : MOVER_MAX;
}

/* More than these help only where each has a context of its own. */
static int movers_of(const struct pager *d, int contexts) {
    int all = d->kind->movers.in + d->kind->movers.out, few = contexts < FEW_MOVERS ? FEW_MOVERS : contexts;
    return contexts && few < all ? few : all;
}

/* In and out in turns, as long as there are both. */
static int lane_of(const struct pager_kind *kind, int mover) {
    int in = kind->movers.in, out = kind->movers.out, both = 2 * (in < out ? in : out);
    return mover < both ? mover % 2 : in > out ? ULMS_LANE_IN : ULMS_LANE_OUT;
}

static const char *start_mover(struct pager_mover *m) {
    return pager_worker_start(&m->worker, m->lane == ULMS_LANE_IN ? "ulms-in" : "ulms-out", move, m);
}

/* The next of the lane that does not run. NULL: all do. */
static struct pager_mover *next_to_start(struct pager *d, int lane) {
    for (struct pager_mover *m = d->movers.mover;
         m < d->movers.mover + d->movers.count && d->movers.lanes[lane].to_start > 0; m++)
        if (m->lane == lane && !m->worker.running)
            return m;
    return NULL;
}

void pager_movers_start_more(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++) {
        struct pager_lane *l = &d->movers.lanes[lane];
        bool wanted = l->to_start > 0 && l->idle == 0 && !l->first && pager_moves(d) && pager_context(d);
        struct pager_mover *m = wanted ? next_to_start(d, lane) : NULL;
        if (!m || !(m->first = mover_take(d, lane)))
            continue;
        l->to_start--;
        pager_unlock(d);
        const char *why = start_mover(m);
        pager_lock(d);
        if (why) {
            l->to_start = 0;
            pager_move_done(d, m->first->m.id, false);
        }
    }
}

const char *pager_movers_start(struct pager *d) {
    int contexts = own_contexts(d);
    const char *why = NULL;
    if (!ulms_policy_holds(ulms_options.policy))
        return NULL;
    d->movers.count = movers_of(d, contexts);
    for (int i = 0; i < d->movers.count; i++) {
        d->movers.mover[i].device = d;
        d->movers.mover[i].lane = lane_of(d->kind, i);
        d->movers.mover[i].own = contexts ? &d->movers.own[i % contexts] : NULL;
        d->movers.lanes[d->movers.mover[i].lane].to_start++;
    }
    for (int lane = 0; lane < LANES && !why; lane++) {
        struct pager_mover *m = next_to_start(d, lane);
        why = m ? start_mover(m) : NULL;
        d->movers.lanes[lane].to_start -= m != NULL;
    }
    return why;
}

void pager_movers_join(struct pager *d, uint64_t until_ns) {
    for (int i = 0; i < MOVER_MAX; i++)
        if (!pager_worker_join(&d->movers.mover[i].worker, until_ns)) {
            pager_lock(d);
            phase_enter(&d->phase.now, PHASE_STUCK);
            pager_wake(d);
            pager_unlock(d);
        }
}
