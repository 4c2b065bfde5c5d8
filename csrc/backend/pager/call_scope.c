/* A library's call whose kernels are one operation: that of the first, which keeps what the call was handed from moving
 * until the call returns or its thread issues anything else. So a thread waits for pages while it keeps some only where
 * another device begins to move in the middle of a call, and then as long as patience lasts. */
#include "backend/pager/call_scope.h"

#include <stdlib.h>

#include "base/lock.h"
#include "launch/call_extents.h"

/* By device its ticket, of which the thread has a share; 0: none. NULL until there was one: who loads the library late
 * has few bytes for what is a thread's. */
static __thread uint64_t *calls;
static __thread bool any;

static void give_back(struct thread *t) {
    (void)t;
    pager_returned();
    free(calls);
    calls = NULL;
}

/* A thread may end within a call. */
static void promise_to_give_back(void) {
    static struct thread_end at_end = {.run = give_back};
    thread_at_end(&at_end);
}

void call_scope_look(const struct op *op) {
    if (any && !call_extents_cover(op))
        pager_returned();
}

bool call_scope_any(const struct pager *d) {
    return any && calls[d->ordinal];
}

uint64_t call_scope_ticket(struct pager *d) {
    uint64_t ticket = any ? calls[d->ordinal] : 0;
    return ticket && pager_moves(d) && pager_window_share(&d->window, ticket, 1) ? ticket : 0;
}

void call_scope_begin(struct pager *d, uint64_t ticket) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!calls && !(calls = calloc(DEVICE_MAX, sizeof *calls)))
        return;
    run_once(&once, promise_to_give_back);
    if (!pager_window_share(&d->window, ticket, 1))
        return;
    calls[d->ordinal] = ticket;
    any = true;
}

void call_scope_end(struct pager *d) {
    uint64_t ticket = any ? calls[d->ordinal] : 0;
    if (!ticket)
        return;
    calls[d->ordinal] = 0;
    call_extents_again();
    pager_retired(d, ticket);
    pager_wake(d);
}

void pager_returned(void) {
    for (struct pager *d = any ? pager_next(NULL) : NULL; d; d = pager_next(d))
        if (calls[d->ordinal]) {
            pager_lock(d);
            call_scope_end(d);
            pager_unlock(d);
        }
    any = false;
}
