/* The program's contexts: in which one moves may be issued, and what happens before one goes. */
#ifndef ULMS_PAGER_CONTEXTS_H
#define ULMS_PAGER_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

struct pager_contexts {
    CUcontext program; /* NULL: it is gone, no other one seen yet */
    uint64_t epoch;    /* of it: streams of an earlier one may be gone */
};

struct pager;

void pager_contexts_open(struct pager *d);
/* The calling thread's serves, if it is of the device; `anew`: in place of the one before. Under the lock. */
void pager_context_see(struct pager *d, bool anew);
/* One of the device that has memory, where no other is known. Under the lock. */
void pager_context_know(struct pager *d, CUcontext context);
/* See backend.h. */
void pager_forget(uint64_t context);
void pager_forgotten(uint64_t gone);
/* No move may begin, as the memory of a context goes with it. */
bool pager_forgets(void);

#endif
