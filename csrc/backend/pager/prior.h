/* Prior work: what was issued before PHASE_MOVING. It counts as one operation, until the drainer has seen it done. */
#ifndef ULMS_PAGER_PRIOR_H
#define ULMS_PAGER_PRIOR_H

#include "backend/pager/worker.h"
#include "driver.h"

enum { PAGER_CONTEXTS = 16 };

struct pager_prior {
    uint64_t ticket;                    /* 0: it is done */
    bool gated;                         /* some of it may wait for the program */
    bool draining;                      /* the drainer waits for work of the program's. Atomic */
    bool incomplete;                    /* nobody tells when all of it is done: no content is ever discarded */
    CUcontext contexts[PAGER_CONTEXTS]; /* where it may still run */
    int count;
    struct pager_worker drainer;
};

struct pager;

/* Notes it. False: no memory. Under the lock. */
bool pager_prior_note(struct pager *d);
/* The thread that waits for it. NULL: it runs; else why it does not. Under the lock. */
const char *pager_prior_drain(struct pager *d);
/* Joins it. Without the lock. */
void pager_prior_join(struct pager *d, uint64_t soon_ns, uint64_t moved_ns);

#endif
