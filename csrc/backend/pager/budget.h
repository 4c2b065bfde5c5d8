/* How much of the device pages may occupy. */
#ifndef ULMS_PAGER_BUDGET_H
#define ULMS_PAGER_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* How often a device is asked what is free. */
#define PAGER_LOOK_NS 1000000000ull

struct pager_budget {
    uint64_t capacity; /* bytes the program's memory may occupy, all kinds */
    uint64_t room;     /* of these, what is left for pages */
    uint64_t bytes;    /* the same in whole pages */
    uint64_t lent;     /* bytes that pages get once all of them are there; in none of the above but capacity */
    uint64_t plain;    /* plain memory when it was worked out */
    uint64_t looked_ns;
    bool looking;    /* the watcher asks the driver */
    uint64_t coming; /* plain memory that is about to be there */
};

struct pager;

/* Works it out again and tells the engine. Under the lock. */
void pager_budget_update(struct pager *d);
/* Asks the current context's device first what is free. Under the lock, which is released meanwhile. */
void pager_budget_look(struct pager *d);

/* capacity_granted has changed: a pager of the device begins to move pages at once if it has to. */
void pager_granted(int32_t device);
/* See backend.h, for the pager of a device. Takes the lock. */
void pager_budget_comes(struct pager *d, int64_t bytes);
uint64_t pager_room(int32_t device);

/* There is room for so many bytes of pages more. The last page may be used in part only: what lies there fits, too.
 * Under the lock. */
bool pager_fits(const struct pager *d, uint64_t bytes);
/* Bytes of pages that are there, or leave or come just now. Under the lock. */
uint64_t pager_pages_there(const struct pager *d);
/* The watcher's: asks again, in the program's context. Under the lock, which is released meanwhile. */
void pager_budget_watch(struct pager *d);

#endif
