/* The threads of a device, from the moment when not everything fits, and the watcher, which sees what is done. None of
 * them ever waits for something that only the program, held by us, could bring about. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "backend/pager/pager.h"
#include "base/background.h"
#include "base/capacity.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { POLL_US = 50, TELL_MS = 10 };
static void pause_us(long us) {
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

void pager_worker_sleep(struct pager *d, pthread_cond_t *until) {
    pthread_cond_wait(until, &d->lock);
}

/* --- the watcher --- */

/* Until something is recorded, CLOCK_MONOTONIC `until_ns` at most. Without the lock. */
static void wait_for_marks(struct pager *d, uint64_t until_ns) {
    struct timespec until = pager_timespec(until_ns);
    pthread_mutex_lock(&d->marks.lock);
    if (!d->marks.first && !pager_stops(d))
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
    CUcontext context = capacity_granted(d->ordinal) ? NULL : d->context;
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
    while (!pager_stops(d)) {
        bool pending = pager_marks_take(d);
        pager_blocks_hear(d);
        pager_hand_out(d);
        pager_movers_start_more(d);
        uint64_t refit = pager_refit(d), next = UINT64_MAX;
        if (pager_moves(d) && (next = d->budget.looked_ns + PAGER_LOOK_NS) <= clock_ns())
            look(d);
        uint64_t told = d->under_way ? clock_ns() + TELL_MS * 1000000ull : UINT64_MAX;
        next = refit < next ? refit : next;
        next = told < next ? told : next; /* counters are right though no operation comes */
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

/* The second time the watcher and the movers are there, and the drainer of the first time has ended. */
const char *pager_workers_start(struct pager *d) {
    bool first = !d->watcher.running;
    const char *why = first ? pager_worker_start(&d->watcher, "ulms-watch", watch, d) : NULL;
    if (!first)
        pthread_join(d->drainer.thread, NULL);
    if (!why)
        why = pager_worker_start(&d->drainer, "ulms-past", pager_drain, d);
    return !why && first && d->held ? pager_movers_start(d) : why;
}

struct timespec pager_soon(uint64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return pager_timespec((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ns);
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
            phase_enter(&d->phase, PHASE_STUCK);
            pager_wake(d);
            pager_unlock(d);
        }
}
