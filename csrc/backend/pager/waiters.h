/* Operations that are held until their pages are there. */
#ifndef ULMS_PAGER_WAITERS_H
#define ULMS_PAGER_WAITERS_H

#include "launch/op.h"

/* On the stack of its thread. */
struct pager_waiter {
    uint64_t ticket, serial, began_ns;
    int at_once;   /* it is to run without its pages where these do not come */
    bool gated;    /* because a gate was closed */
    int answer;    /* the engine's; ULMS_HOLD where nothing moves any more */
    bool answered; /* atomic, set under the lock */
    struct pager_waiter *next;
};

struct pager_waiters {
    struct pager_waiter *first; /* oldest first */
    bool insisting;             /* an operation that cannot run without its pages waits for them */
    uint64_t gated;             /* bytes of pages beyond the budget at most, because of those that were gated */
};

struct pager;

/* Holds the operation until the engine lets it run, or patience has run out; adds how long. Returns the engine's
 * answer; ULMS_HOLD: nothing moves any more, or it must not run, as what uses its pages does not end. Under the lock,
 * which is released meanwhile. */
int pager_hold(struct pager *d, const struct op *op, uint64_t serial, uint64_t ticket, uint64_t *waited_ns);
/* It cannot run without some page that it touches. Under the lock. */
bool pager_insists(struct pager *d, const struct op *op);
/* Operations that cannot run without some page take turns: each may need all the room that there is, and has it once
 * what was issued before has retired. So what would use pages beside them has no ticket before either. False: it is
 * none, or waits no longer for its turn. Under the lock, which is released meanwhile. */
bool pager_insisting_begin(struct pager *d, const struct op *op);
void pager_insisting_end(struct pager *d);
/* Something happened: the engine is asked for each. pager_wake does. Under the lock. */
void pager_held_ask(struct pager *d);
/* One that was issued before waits still. Under the lock. */
bool pager_older_waits(const struct pager *d, uint64_t ticket);
/* Of kernels by their function, of all else by the call. */
uint64_t pager_key(const struct op *op);
/* The operation was held since then for pages of so many bytes: tells counters and trace. Returns nanoseconds. */
uint64_t pager_tell_held(const struct pager *d, const struct op *op, uint64_t began_ns, uint64_t missing);

#endif
