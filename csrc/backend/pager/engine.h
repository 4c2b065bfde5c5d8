/* The engine that rules over the pages of a device. */
#ifndef ULMS_PAGER_ENGINE_H
#define ULMS_PAGER_ENGINE_H

#include <stdbool.h>

#include "ulms.h"

struct pager_engine {
    struct ulms_engine *core;      /* called under the device's lock alone */
    uint32_t run_pages;            /* the most of one move */
    struct ulms_engine_stats told; /* what pager_publish has told */
    uint64_t told_ns;              /* when */
};

struct pager;

/* False: no memory. */
bool pager_engine_open(struct pager *d);
/* Whether all pages come that have room, and none is used where it lies, is what refit and turn say. Under the lock. */
void pager_all_come(struct pager *d);
/* The operation is done on the device, or never came to it. Under the lock. */
void pager_retired(struct pager *d, uint64_t ticket);
/* Adds to the counters what the engine has counted since. Under the lock. */
void pager_publish(struct pager *d);
/* Leaves it out: it was no operation of the program's. Under the lock. */
void pager_leave_untold(struct pager *d);

#endif
