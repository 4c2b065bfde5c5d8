/* Operations that are held until their pages are there. Whoever changes something asks the engine for them: a thread
 * that is woken to be held again would take the lock from those who move. */
#include <sched.h>

#include "backend/pager/pager.h"
#include "base/larger.h"
#include "base/log.h"
#include "launch/function.h"
#include "observe/held.h"
#include "observe/stats.h"
#include "observe/trace.h"

/* To wake a thread on an idle processor takes about as long as to move a page, and most are held for less than this. */
enum { SPIN_NS = 1000000, YIELDED_NS = 20000 };
enum { STARVES_NS = 20000000 };

static uint64_t name_key(const struct op *op) {
    return op->function ? op->function : (uint64_t)1 << 32 | op->api;
}

/* Graphs are told apart by where they begin: handles are new when one is updated. */
uint64_t pager_key(const struct op *op) {
    bool graph = op->kind == OP_GRAPH && op->count > 0;
    return name_key(op) + (graph ? op->touches[0].start / PAGE_LEAST << 33 : 0);
}

uint64_t pager_tell_held(const struct pager *d, const struct op *op, uint64_t began_ns, uint64_t missing) {
    const struct function *f = op->function ? function_at(op->function - 1) : NULL;
    uint64_t ns = clock_ns() - began_ns;
    stats_add(COUNT_held_ns, ns);
    held_add(name_key(op), f ? f->name : api_rows[op->api].symbol, ns, missing);
    if (trace_on)
        trace_hold(d->ordinal, op->serial, began_ns, ns, missing);
    return ns;
}

bool pager_older_waits(const struct pager *d, uint64_t ticket) {
    return d->admission.waiters.first && d->admission.waiters.first->ticket < ticket;
}

/* One that was issued before has waited for long, and nothing moves: what runs keeps the frames that it needs, and what
 * is admitted now would keep them longer. */
static bool older_starves(const struct pager *d, uint64_t ticket) {
    const struct pager_waiter *w = d->admission.waiters.first;
    return pager_older_waits(d, ticket) && !d->moves.under_way && !pager_opaque_runs(d) &&
           clock_ns() - w->began_ns > STARVES_NS;
}

static int ask(struct pager *d, const struct pager_waiter *w) {
    uint64_t wait;
    if (!w->at_once && older_starves(d, w->ticket))
        return ULMS_HOLD;
    return ulms_engine_admit(d->engine.core, w->serial, w->at_once, &wait);
}

static void waiter_enter(struct pager *d, struct pager_waiter *w) {
    struct pager_waiter **at = &d->admission.waiters.first;
    while (*at && (*at)->ticket < w->ticket)
        at = &(*at)->next;
    w->next = *at;
    *at = w;
}

static bool is_answered(const struct pager_waiter *w) {
    return __atomic_load_n(&w->answered, __ATOMIC_ACQUIRE);
}

void pager_held_ask(struct pager *d) {
    bool any = false;
    for (struct pager_waiter **at = &d->admission.waiters.first, *w; (w = *at);) {
        if (pager_moves(d))
            w->answer = ask(d, w);
        if (pager_moves(d) && w->answer == ULMS_HOLD) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        __atomic_store_n(&w->answered, true, __ATOMIC_RELEASE);
        any = true;
    }
    if (any)
        pager_notify_answered(d);
}

/* Only as long as nobody else wants the processor. */
static void spin(struct pager *d, const struct pager_waiter *w) {
    pager_unlock(d);
    uint64_t began = clock_ns(), before, now = began;
    do {
        before = now;
        sched_yield();
        now = clock_ns();
    } while (!is_answered(w) && now - began < SPIN_NS && now - before < YIELDED_NS);
    pager_lock(d);
}

static void leave(struct pager *d, struct pager_waiter *w) {
    struct pager_waiter **at = &d->admission.waiters.first;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    w->answer = ULMS_HOLD;
    pager_held_ask(d);
}

/* Nothing comes for it any more, and what is under way for it does not count. */
static void let_go(struct pager *d, const struct op *op) {
    size_t n = d->kind->touches(d, op);
    for (size_t i = 0; i < n; i++)
        pager_moves_abandon(d, d->admission.touches[i].start, d->admission.touches[i].bytes);
}

/* Their pages come all at once where the gate opens: nobody takes any away between operations that were issued. */
static void note_gated(struct pager *d) {
    struct ulms_engine_stats now;
    ulms_engine_stats(d->engine.core, &now);
    uint64_t held = now.resident_bytes + pager_moves_bytes(d);
    stats_most(COUNT_gated_bytes, &d->admission.waiters.gated, held - smaller(held, now.budget_bytes));
}

/* Without its pages. */
static void run_at_once(struct pager *d, const struct op *op, struct pager_waiter *w) {
    w->at_once = 1;
    w->gated = patience_gated();
    let_go(d, op);
}

bool pager_insists(struct pager *d, const struct op *op) {
    return d->kind->insists && d->kind->insists(d, op);
}

/* Until patience has run out; then as long as a move goes on that cannot be abandoned. */
static void wait_for_answer(struct pager *d, const struct op *op, struct pager_waiter *w) {
    struct patience wish = {.what = pager_insists(d, op) ? PATIENCE_NEED : PATIENCE_WISH},
                    need = {.what = PATIENCE_NEED};
    uint64_t progress_ns = d->monitor.progress_ns;
    while (!is_answered(w) && !w->at_once)
        if (!pager_wait_for_answer(d, &wish)) {
            bool progressed = progress_ns != d->monitor.progress_ns;
            progress_ns = d->monitor.progress_ns;
            if (pager_insists(d, op) && (progressed || wish.what == PATIENCE_WISH)) { /* since, or still */
                wish.what = PATIENCE_NEED;
                continue;
            }
            log_debug("device %d: nothing moves: an operation runs without its pages", d->ordinal);
            run_at_once(d, op, w);
            pager_wake(d);
        }
    while (!is_answered(w))
        if (!pager_wait_for_answer(d, &need)) {
            leave(d, w);
            return;
        }
}

/* Else the launching thread may be the one that opens the gate, and the insisting operation waits behind that gate. */
static bool awaits_turn(struct pager *d, const struct op *op) {
    return d->kind->is_away(d, op) && (!patience_gated() || pager_insists(d, op));
}

bool pager_insisting_begin(struct pager *d, const struct op *op) {
    struct patience need = {.what = PATIENCE_NEED};
    bool *insisting = &d->admission.waiters.insisting;
    while (*insisting && pager_moves(d) && awaits_turn(d, op) && pager_wait(d, &need))
        ;
    bool begins = !*insisting && pager_moves(d) && pager_insists(d, op);
    *insisting = *insisting || begins;
    return begins;
}

void pager_insisting_end(struct pager *d) {
    d->admission.waiters.insisting = false;
    pager_notify(d);
}

int pager_hold(struct pager *d, const struct op *op, uint64_t serial, uint64_t ticket, uint64_t *waited_ns) {
    struct pager_waiter self = {.ticket = ticket, .serial = serial};
    if (!pager_context(d) || (patience_gone() && !pager_insists(d, op))) /* nothing moves without a context */
        run_at_once(d, op, &self);
    self.answer = ask(d, &self);
    if (self.answer == ULMS_HOLD) {
        uint64_t missing = ulms_engine_missing(d->engine.core, serial);
        self.began_ns = clock_ns();
        waiter_enter(d, &self);
        pager_wake(d);
        spin(d, &self);
        wait_for_answer(d, op, &self);
        *waited_ns += pager_tell_held(d, op, self.began_ns, missing);
    }
    if (self.gated && self.answer == ULMS_RUN_SHORT)
        note_gated(d);
    return self.answer;
}
