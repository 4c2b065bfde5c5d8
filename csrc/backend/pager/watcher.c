/* The threads of a device, from the moment when not everything fits, and the watcher, which sees what is done. None of
 * them ever waits for something that only the program, held by us, could bring about. */

#include "backend/pager/pager.h"

enum { POLL_US = 50, TELL_MS = 10 };

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
            pager_budget_watch(d);
        uint64_t told = d->moves.under_way ? clock_ns() + TELL_MS * 1000000ull : UINT64_MAX;
        next = refit < next ? refit : next;
        next = told < next ? told : next; /* counters are right though no operation comes */
        if (!pending || clock_ns() >= d->engine.told_ns + TELL_MS * 1000000ull)
            pager_publish(d);
        if (!pending) {
            pager_unlock(d);
            pager_marks_sleep(d, next);
            pager_lock(d);
            continue;
        }
        pager_unlock(d);
        struct pager_marker *done = pager_marks_poll(d);
        pager_lock(d);
        if (done)
            tell(d, done);
        if (done && d->admission.waiters.first)
            continue;
        pager_unlock(d);
        thread_sleep(POLL_US); /* launches wait for who asks the driver, and for who has the lock */
        pager_lock(d);
    }
    pager_unlock(d);
    return NULL;
}

/* The second time the watcher and the movers are there. */
const char *pager_workers_start(struct pager *d) {
    bool first = !d->markers.watcher.running;
    const char *why = first ? pager_worker_start(&d->markers.watcher, "ulms-watch", watch, d) : NULL;
    if (!why)
        why = pager_prior_drain(d);
    return !why && first ? pager_movers_start(d) : why;
}

void pager_workers_stop(struct pager *d, uint64_t soon_ns, uint64_t moved_ns) {
    if (d->kind->placer_stops)
        d->kind->placer_stops(d, soon_ns);
    pager_worker_join(&d->markers.watcher, moved_ns);
    pager_prior_join(d, soon_ns, moved_ns);
    pager_movers_join(d, moved_ns);
}
