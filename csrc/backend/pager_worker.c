/* The threads of a device, from the moment when not everything fits: movers take moves and wait until each is done, as
 * its kind has it; the watcher sees what is done. None of them ever waits for something that only the program, held by
 * us, could bring about. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "backend/pager.h"
#include "base/background.h"
#include "base/log.h"
#include "base/thread.h"
#include "interpose/capture.h"
#include "interpose/session.h"
#include "observe/stats.h"

enum { POLL_US = 50, TELL_MS = 10, TRIES = 3, FEW_MOVERS = 3 };
/* So many bytes of the device for each context of our own. */
#define CONTEXT_FOR ((uint64_t)8 << 30)

static void pause_us(long us) {
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

void pager_worker_sleep(struct pager *d, pthread_cond_t *until) {
    pthread_cond_wait(until, &d->lock);
}

/* --- movers --- */

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
    return d->own[0].context ? d->own[0].context : d->context;
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

/* A woken thread costs more than most operations do, so movers are woken for moves alone: whoever changed something
 * looks for them. */
static void hand_out(struct pager *d, int lane) {
    struct pager_lane *l = &d->lanes[lane];
    bool can = d->held && d->moving && pager_context(d);
    for (struct pager_move *m; can && l->idle > 0 && (m = pager_move_take(d, lane)); l->idle--) {
        if (!l->first)
            l->last = &l->first;
        *l->last = m;
        l->last = &m->after;
        l->chosen++;
    }
}

void pager_movers_wake(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++)
        for (; d->lanes[lane].chosen > 0; d->lanes[lane].chosen--)
            pthread_cond_signal(&d->lanes[lane].work);
}

static void hand_out_all(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++)
        hand_out(d, lane);
}

void pager_wake(struct pager *d) {
    pager_held_ask(d);
    pthread_cond_broadcast(&d->changed);
    hand_out_all(d);
}

void pager_stir(struct pager *d) {
    if (!__atomic_load_n(&d->marks.watched, __ATOMIC_RELAXED) || patience_gone())
        hand_out_all(d);
}

void pager_take_back(struct pager *d) {
    for (int lane = 0; lane < LANES; lane++)
        for (struct pager_move *m; (m = d->lanes[lane].first);) {
            d->lanes[lane].first = m->after;
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
    struct pager_lane *l = &d->lanes[self->lane];
    struct pager_move *m = d->stopping ? NULL : take_ready(l);
    if (!m && !d->stopping && context_of(self) && d->moving)
        m = pager_move_take(d, self->lane);
    l->idle += !m;
    pager_wake(d);
    if (m)
        return m;
    pager_movers_wake(d);
    while (!d->stopping && !l->first)
        pager_worker_sleep(d, &l->work);
    if ((m = l->first))
        l->first = m->after;
    return d->stopping ? NULL : m;
}

static void *move(void *data) {
    struct pager_mover *self = data;
    struct pager *d = self->device;
    struct seat seat = {0};
    pager_lock(d);
    for (struct pager_move *m; (m = next_move(self));) {
        CUcontext context = context_of(self);
        uint64_t epoch = context == d->context ? d->epoch : 0; /* ours does not go with a program's */
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

/* --- prior work: what was issued before operations were told to the engine --- */

/* Until the driver has what other threads were just issuing. False: the end came first. */
static bool drain_untracked(const struct pager *d) {
    bool stopping = false;
    while (!pager_bypasses_over(d) && !(stopping = __atomic_load_n(&d->stopping, __ATOMIC_RELAXED)))
        pause_us(POLL_US);
    return !stopping;
}

/* Until all work of a context is done; one that is gone has none left. False: the driver does not tell. */
static bool drain_context(struct pager *d, CUcontext context) {
    for (int tries = 0; context && tries < TRIES && !__atomic_load_n(&d->stopping, __ATOMIC_RELAXED);) {
        CUresult status = REAL(cuCtxSetCurrent, 0)(context);
        if (status == CUDA_SUCCESS && !capture_keep_off()) {
            pause_us(1000);
            continue;
        }
        __atomic_store_n(&d->draining, true, __ATOMIC_RELAXED);
        if (status == CUDA_SUCCESS)
            status = REAL(cuCtxSynchronize, 0)();
        __atomic_store_n(&d->draining, false, __ATOMIC_RELAXED);
        capture_let_begin();
        if (status == CUDA_SUCCESS || pager_gone(status))
            return true;
        tries++;
    }
    return false;
}

/* What is not done by then may still use any page: none leaves before. */
static void *drain(void *data) {
    struct pager *d = data;
    bool sure = drain_untracked(d);
    for (int i = 0; i < d->prior_count; i++)
        sure = drain_context(d, d->prior_contexts[i]) && sure;
    pager_lock(d);
    d->drain_incomplete = d->drain_incomplete || !sure;
    if (d->drain_incomplete && !d->kind->managed)
        pager_give_up(d, "the driver does not tell when what was issued before is done");
    pager_retired(d, d->prior_ticket);
    patience_gates(-d->prior_gated);
    pager_wake(d);
    pager_unlock(d);
    return NULL;
}

/* --- the watcher --- */

/* Until something is recorded, CLOCK_MONOTONIC `until_ns` at most. Without the lock. */
static void wait_for_marks(struct pager *d, uint64_t until_ns) {
    struct timespec until = pager_timespec(until_ns);
    pthread_mutex_lock(&d->marks.lock);
    if (!d->marks.first && !__atomic_load_n(&d->stopping, __ATOMIC_RELAXED))
        pthread_cond_timedwait(&d->marks.recorded, &d->marks.lock, &until);
    pthread_mutex_unlock(&d->marks.lock);
}

static void tell(struct pager *d, struct pager_marker *done) {
    while (done) {
        struct pager_marker *m = done;
        done = m->next;
        if (m->of == PAGER_MOVE)
            pager_move_done(d, m->id, true);
        else if (m->of == PAGER_OPERATION)
            pager_retired(d, m->id);
        else
            patience_gates(-1);
        pager_mark_spare(d, m);
    }
    pager_wake(d);
}

/* Under the lock, which is released meanwhile: launches would wait for the driver. */
static void look(struct pager *d) {
    CUcontext context = ulms_options.capacity ? NULL : d->context;
    d->budget.looked_ns = clock_ns();
    d->looking = true;
    pager_unlock(d);
    bool can = context && REAL(cuCtxSetCurrent, 0)(context) == CUDA_SUCCESS;
    pager_lock(d);
    if (can)
        pager_budget_look(d);
    else
        pager_budget_update(d);
    d->looking = false;
    pager_wake(d);
}

static void *watch(void *data) {
    struct pager *d = data;
    pager_lock(d);
    while (!d->stopping) {
        bool pending = pager_marks_take(d);
        pager_blocks_hear(d);
        hand_out_all(d);
        uint64_t next = d->budget.looked_ns + PAGER_LOOK_NS;
        if (clock_ns() >= next)
            look(d);
        if (!pending || clock_ns() >= d->told_ns + TELL_MS * 1000000ull)
            pager_publish(d);
        if (!pending) {
            pager_unlock(d);
            wait_for_marks(d, next);
            pager_lock(d);
            continue;
        }
        pager_unlock(d);
        struct pager_marker *done = pager_marks_poll(d);
        pager_lock(d);
        if (done)
            tell(d, done);
        if (done && d->waiters)
            continue;
        pager_unlock(d);
        pause_us(POLL_US); /* launches wait for who asks the driver, and for who has the lock */
        pager_lock(d);
    }
    pager_unlock(d);
    return NULL;
}

/* --- their life --- */

/* On the stack of who starts the thread, until both have met. */
struct start {
    const char *name;
    void *(*run)(void *);
    void *data;
    bool relaxed;
    pthread_barrier_t met;
};

static void *begin(void *data) {
    struct start *s = data;
    void *(*run)(void *) = s->run;
    void *of = s->data;
    pthread_setname_np(pthread_self(), s->name);
    prctl(PR_SET_TIMERSLACK, 1);
    bool relaxed = s->relaxed = capture_relax().on;
    pthread_barrier_wait(&s->met);
    return relaxed ? run(of) : NULL;
}

const char *pager_worker_start(struct pager_worker *w, const char *name, void *(*run)(void *), void *data) {
    struct start s = {.name = name, .run = run, .data = data};
    pthread_barrier_init(&s.met, NULL, 2);
    w->running = background_start(&w->thread, begin, &s) == 0;
    if (w->running)
        pthread_barrier_wait(&s.met);
    pthread_barrier_destroy(&s.met);
    return !w->running ? "no thread" : !s.relaxed ? PAGER_UNRELAXED : NULL;
}

/* How many contexts of our own are for the movers: each takes memory of the device, when that is short. */
static int own_contexts(const struct pager *d) {
    if (!d->kind->managed)
        return 0;
    uint64_t contexts = pager_device_bytes(d->ordinal) / CONTEXT_FOR;
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

const char *pager_workers_start(struct pager *d) {
    const char *why = pager_worker_start(&d->watcher, "ulms-watch", watch, d);
    if (!why)
        why = pager_worker_start(&d->drainer, "ulms-past", drain, d);
    int contexts = own_contexts(d), movers = movers_of(d, contexts);
    for (int i = 0; !why && d->held && i < movers; i++) {
        d->movers[i].device = d;
        d->movers[i].lane = lane_of(d->kind, i);
        d->movers[i].own = contexts ? &d->own[i % contexts] : NULL;
        why = pager_worker_start(&d->movers[i].worker, d->movers[i].lane == ULMS_LANE_IN ? "ulms-in" : "ulms-out", move,
                                 &d->movers[i]);
    }
    return why;
}

struct timespec pager_soon(int seconds) {
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += seconds;
    return soon;
}

bool pager_worker_join(struct pager_worker *w, const struct timespec *until) {
    bool ended = !w->running || pthread_timedjoin_np(w->thread, NULL, until) == 0;
    if (!ended)
        log_warn("the process ends while the driver keeps a thread of ours");
    w->running = false;
    return ended;
}

void pager_workers_stop(struct pager *d, const struct timespec *soon, const struct timespec *moved) {
    if (d->kind->placer_stops)
        d->kind->placer_stops(d, soon);
    pager_worker_join(&d->watcher, moved);
    pager_worker_join(&d->drainer, __atomic_load_n(&d->draining, __ATOMIC_RELAXED) ? soon : moved);
    for (int i = 0; i < MOVER_MAX; i++)
        if (!pager_worker_join(&d->movers[i].worker, moved)) {
            pager_lock(d);
            d->stuck = true;
            pager_wake(d);
            pager_unlock(d);
        }
}
