/* The program's contexts. One goes only when nothing of ours is in it. */
#include "backend/pager/call_scope.h"
#include "driver/context.h"

void pager_contexts_open(struct pager *d) {
    d->contexts.epoch = 1; /* 0 is of our own */
}

void pager_context_see(struct pager *d, bool anew) {
    bool looks = anew || !d->contexts.program;
    CUcontext current = looks && context_device() == d->ordinal ? pager_current() : NULL;
    d->contexts.program = current ? current : d->contexts.program;
}

void pager_context_know(struct pager *d, CUcontext context) {
    d->contexts.program = d->contexts.program ? d->contexts.program : context;
}

/* What was issued up to now is done, or nothing gets done any more: a context cannot go before. Under the lock. */
static void wait_for_issued(struct pager *d) {
    struct patience patience = {0};
    uint64_t issued = d->window.next;
    while (pager_moves(d) && d->window.oldest < issued && pager_wait(d, &patience))
        ;
}

/* As long as patience lasts: a move of another context's may be behind a gate of the program's own. Under the lock. */
static void wait_for_workers(struct pager *d, CUcontext going) {
    bool theirs = d->contexts.program == going && !d->movers.own[0].context; /* some use just this one */
    struct patience wish = {0}, need = {.what = PATIENCE_NEED};
    while ((d->moves.under_way || d->budget.looking) && !pager_stops(d) && pager_wait(d, &wish))
        ;
    while (theirs && (d->moves.under_way || d->budget.looking) && !pager_stops(d) && pager_wait(d, &need))
        ;
}

static uint32_t going_count; /* contexts; atomic */

bool pager_forgets(void) {
    return __atomic_load_n(&going_count, __ATOMIC_SEQ_CST) > 0;
}

void pager_forget(uint64_t context) {
    CUcontext going = (CUcontext)(uintptr_t)context;
    pager_returned();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_refit_again(d); /* what it issued is nobody's work */
        wait_for_issued(d);
        pager_unlock(d);
    }
    __atomic_fetch_add(&going_count, 1, __ATOMIC_SEQ_CST);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_blocks_hear(d);
        /* the addresses of its memory may be somebody else's before we are told that it left */
        pager_pages_died(&d->memory.ranges, 0, UINT64_MAX, 0);
        if (d->kind->placer_leaves)
            d->kind->placer_leaves(d, going);
        wait_for_workers(d, going); /* what was handed out begins still */
        pager_moves_wait(d, 0, UINT64_MAX, d->contexts.program != going);
        if (d->contexts.program == going) {
            d->contexts.program = NULL;
            d->contexts.epoch++;
        }
        pager_order_leave(d, going);
        pager_marks_forget(d, going);
        pager_unlock(d);
        pager_in_flight_forget(d, going);
    }
}

void pager_forgotten(uint64_t gone) {
    (void)gone;
    __atomic_fetch_sub(&going_count, 1, __ATOMIC_SEQ_CST);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_wake(d);
        pager_unlock(d);
    }
}
