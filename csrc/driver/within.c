#include "driver/within.h"

#include <signal.h>

#include "driver/capture.h"
#include "driver/home.h"
#include "driver/session.h"

/* A handler on a stack of its own: its frames say nothing of the other's. */
static bool elsewhere(void) {
    stack_t now;
    return sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_ONSTACK;
}

static bool is_whole(const struct within *w) {
    return *(const volatile uint64_t *)&w->whole == WITHIN_WHOLE;
}

static void take_back(struct thread *t) {
    t->within = NULL;
    t->inside = 0;
    t->sections = 0;
    t->call.open = false;
    __atomic_store_n(&home.place[t->slot].passing, false, __ATOMIC_RELEASE);
    capture_let_begin();
    if (session_on && session.jumped)
        session.jumped();
}

/* A thread may end in a wrapper, or after it has jumped out of one. */
static void leave(struct thread *t) {
    if (t->within || t->inside)
        take_back(t);
}

void within_watch(void) {
    static struct thread_end at_end = {.run = leave, .first = true};
    thread_at_end(&at_end);
}

/* A wrapper that was interrupted lies above the one that its handler calls. */
bool within_still(struct within *now) {
    struct thread *self = &thread_here;
    if (!self->within || elsewhere() || ((uintptr_t)now < (uintptr_t)self->within && is_whole(self->within)))
        return true;
    take_back(self);
    return false;
}
