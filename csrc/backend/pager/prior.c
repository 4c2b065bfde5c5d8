/* Prior work: what was issued before operations were told to the engine. A thread of ours waits for it. */
#include <time.h>

#include "backend/pager/pager.h"
#include "driver/capture.h"
#include "driver/real.h"

enum { POLL_US = 50, TRIES = 3 };

static void pause_us(long us) {
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

/* Until the driver has what other threads were just issuing. False: the end came first. */
static bool drain_untracked(const struct pager *d) {
    bool stopping = false;
    while (!pager_bypasses_over(d) && !(stopping = pager_stops(d)))
        pause_us(POLL_US);
    return !stopping;
}

/* Until all work of a context is done; one that is gone has none left. False: the driver does not tell. */
static bool drain_context(struct pager *d, CUcontext context) {
    for (int tries = 0; context && tries < TRIES && !pager_stops(d);) {
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
void *pager_drain(void *data) {
    struct pager *d = data;
    bool sure = drain_untracked(d);
    for (int i = 0; i < d->prior_count; i++)
        sure = drain_context(d, d->prior_contexts[i]) && sure;
    pager_lock(d);
    d->drain_incomplete = d->drain_incomplete || !sure;
    if (d->drain_incomplete && !d->kind->managed)
        pager_give_up(d, "the driver does not tell when what was issued before is done");
    pager_retired(d, d->prior_ticket);
    d->prior_ticket = 0;
    patience_gates(-d->prior_gated);
    pager_wake(d);
    pager_unlock(d);
    return NULL;
}
