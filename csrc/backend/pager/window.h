/* Operations that were issued and have not retired. Under the device's lock. */
#ifndef ULMS_PAGER_WINDOW_H
#define ULMS_PAGER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

enum pager_stage { PAGER_RETIRED, PAGER_ISSUED, PAGER_MARKED };

struct pager_operation {
    enum pager_stage stage;
    bool known;      /* to the engine; a kernel that is not may reach any page through addresses that we do not see */
    uint64_t serial; /* the engine's; not known: of the last known one before */
    bool opaque;     /* it may touch pages that it does not show */
    CUevent event;   /* recorded behind it; PAGER_MARKED only */
    uint32_t others; /* besides the last, so many are to retire it: streams, a library's call and its operations */
};

/* Operations have tickets, from 1, in the order in which they were issued. */
struct pager_window {
    struct pager_operation *ring; /* ticket % capacity */
    uint64_t capacity;            /* power of two, or 0 */
    uint64_t oldest, next;        /* every ticket below oldest has retired; next has not been issued */
    uint64_t last;                /* serial */
    uint64_t opaque;              /* so many of them have not retired */
};

/* Serial 0: the engine does not know it. Returns its ticket; 0: no memory, or far too many have not retired. */
uint64_t pager_window_issue(struct pager_window *w, uint64_t serial);
/* It has not retired. */
void pager_window_set_opaque(struct pager_window *w, uint64_t ticket);
/* event NULL: there is none. */
void pager_window_mark(struct pager_window *w, uint64_t ticket, CUevent event);
/* So many more are to retire it. False: it is none, or no more. */
bool pager_window_share(struct pager_window *w, uint64_t ticket, uint32_t others);
/* Returns the serial, if it has retired and the engine knows of it; else 0. */
uint64_t pager_window_retire(struct pager_window *w, uint64_t ticket);
/* By serial. */
struct pager_operation pager_window_find(const struct pager_window *w, uint64_t serial);

#endif
