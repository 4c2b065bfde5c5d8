/* From moving pages back to where everything fits. */
#ifndef ULMS_PAGER_REFIT_H
#define ULMS_PAGER_REFIT_H

#include <stdbool.h>
#include <stdint.h>

struct pager_refit {
    uint64_t since_ns; /* it has all fit since then; 0: it does not */
    bool begun, admitted;
    bool all_come;              /* no page is used where it lies */
    uint64_t missing, fewer_ns; /* bytes that are still to come; when they were fewer last */
    uint64_t serial, ticket;    /* of the operation that stands for all memory, once begun; 0: there is no memory */
};

struct pager;

/* The watcher's: brings what is away once all memory fits, and then ends PHASE_MOVING. Returns when it looks next,
 * CLOCK_MONOTONIC; UINT64_MAX: once something happens. Under the lock. */
uint64_t pager_refit(struct pager *d);
/* There is memory of which it does not know, or less room. Under the lock. */
void pager_refit_again(struct pager *d);

#endif
