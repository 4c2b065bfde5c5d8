/* Prior work: what was issued before operations were told to the engine. A thread of ours waits for it. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "backend/pager/pager.h"
#include "base/background.h"
#include "driver/session.h"

enum { POLL_US = 50, TRIES = 3 };

/* Until the driver has what other threads were just issuing. False: the end came first. */
static bool drain_untracked(const struct pager *d) {
    bool stopping = false;
    while (!pager_bypasses_over(d) && !(stopping = pager_stops(d)))
        thread_sleep(POLL_US);
    return !stopping;
}

/* Until all work of a context is done; one that is gone has none left. False: the driver does not tell. */
static bool drain_context(struct pager *d, CUcontext context) {
    for (int tries = 0; context && tries < TRIES && !pager_stops(d);) {
        CUresult status = REAL(cuCtxSetCurrent, 0)(context);
        if (status == CUDA_SUCCESS && !capture_keep_off()) {
            thread_sleep(1000);
            continue;
        }
        __atomic_store_n(&d->phase.prior.draining, true, __ATOMIC_RELAXED);
        if (status == CUDA_SUCCESS)
            status = REAL(cuCtxSynchronize, 0)();
        __atomic_store_n(&d->phase.prior.draining, false, __ATOMIC_RELAXED);
        capture_let_begin();
        if (status == CUDA_SUCCESS || pager_gone(status))
            return true;
        tries++;
    }
    return false;
}

static void note_contexts(struct pager *d) {
    struct allocation list[LEDGER_LISTED];
    addr_t from = 0;
    struct pager_prior *p = &d->phase.prior;
    pager_context_see(d, true);
    p->count = 0;
    if (d->contexts.program)
        p->contexts[p->count++] = d->contexts.program;
    for (size_t n; (n = ledger_list(session.ledger, from, list, LEDGER_LISTED)) > 0; from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++) {
            CUcontext context = (CUcontext)(uintptr_t)list[i].context;
            int k = 0;
            while (k < p->count && p->contexts[k] != context)
                k++;
            if (!context || !list[i].managed || k < p->count)
                continue;
            if (list[i].device == d->ordinal)
                pager_context_know(d, context);
            if (k < PAGER_CONTEXTS)
                p->contexts[p->count++] = context;
            else
                p->incomplete = true;
        }
}

/* One operation stands for all that was issued before: it may have touched everything. */
bool pager_prior_note(struct pager *d) {
    uint64_t wait;
    struct ulms_engine_touch *touches = calloc(d->memory.ranges.count + 1, sizeof *touches);
    note_contexts(d);
    d->phase.prior.gated = pager_gates_unseen();
    patience_gates(d->phase.prior.gated);
    if (!touches)
        return false;
    for (size_t i = 0; i < d->memory.ranges.count; i++) {
        struct pager_range *r = d->memory.ranges.at[i].what;
        touches[i] = (struct ulms_engine_touch){r->start, r->bytes, ULMS_TOUCH_UPDATE};
    }
    pager_pages_died(&d->memory.ranges, 0, UINT64_MAX, 0);
    pager_publish(d);
    uint64_t serial = ulms_engine_issued(d->engine.core, 0, touches, d->memory.ranges.count);
    free(touches);
    d->phase.prior.ticket = pager_window_issue(&d->window, serial);
    if (serial)
        ulms_engine_admit(d->engine.core, serial, 1, &wait);
    pager_leave_untold(d); /* what it found absent came before pages moved */
    return d->phase.prior.ticket && (serial || d->memory.ranges.count == 0);
}

/* What is not done by then may still use any page: none leaves before. */
static void *drain(void *data) {
    struct pager *d = data;
    struct pager_prior *p = &d->phase.prior;
    bool sure = drain_untracked(d);
    for (int i = 0; i < p->count; i++)
        sure = drain_context(d, p->contexts[i]) && sure;
    pager_lock(d);
    p->incomplete = p->incomplete || !sure;
    if (p->incomplete && !d->kind->managed)
        pager_give_up(d, "the driver does not tell when what was issued before is done");
    pager_retired(d, p->ticket);
    p->ticket = 0;
    patience_gates(-p->gated);
    pager_wake(d);
    pager_unlock(d);
    return NULL;
}

/* The drainer of an earlier time has ended, but for what the driver does at the end of a thread. */
const char *pager_prior_drain(struct pager *d) {
    struct pager_worker *w = &d->phase.prior.drainer;
    if (w->running && !background_join(w->thread, clock_ns() + PAGER_JOIN_NS))
        return "the driver keeps a thread of ours";
    return pager_worker_start(w, "ulms-past", drain, d);
}

void pager_prior_join(struct pager *d, uint64_t soon_ns, uint64_t moved_ns) {
    struct pager_prior *p = &d->phase.prior;
    pager_worker_join(&p->drainer, __atomic_load_n(&p->draining, __ATOMIC_RELAXED) ? soon_ns : moved_ns);
}
