/* How much work the device has before it while others wait for theirs: what has been issued cannot be taken back. */
#ifndef ULMS_PAGER_IN_FLIGHT_H
#define ULMS_PAGER_IN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "driver.h"

enum { IN_FLIGHT_MARKS = 2 };

/* Behind each so many operations there is a mark, and so many marks at most before the device. */
struct pager_in_flight {
    uint64_t most_ns;   /* 0: no bound. Atomic */
    struct lock lock;   /* of the rest; the device's is never taken under it */
    uint64_t off_ns;    /* no bound until then: waiting was in vain */
    uint32_t every;     /* operations from mark to mark: as many as run for a mark's part of the bound */
    uint32_t since;     /* operations since the last mark. Atomic */
    uint64_t passed_ns; /* when a mark was seen to pass last, after a wait for it; 0: it was not waited for */
    CUcontext context;  /* of the events; NULL: there are none */
    CUevent event[IN_FLIGHT_MARKS];
    uint64_t marked_ns[IN_FLIGHT_MARKS]; /* 0: it is not recorded, or has passed */
    int oldest;
};

struct pager;
struct op;

/* From now on. 0: no bound. */
void pager_in_flight_bound(struct pager *d, uint64_t most_ns);
/* An operation of the current context is about to be issued: waits while too much is in flight, for a moment at most.
 * Without the device's lock. */
void pager_in_flight_wait(struct pager *d);
/* It was issued. Without the device's lock. */
void pager_in_flight_issued(struct pager *d, const struct op *op);
/* The context goes, and its events with it. */
void pager_in_flight_forget(struct pager *d, CUcontext context);

#endif
