/* A device that other processes share: the program issues only in its turn. */
#ifndef ULMS_PAGER_TURN_H
#define ULMS_PAGER_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/pager/in_flight.h"

struct pager_turn {
    bool closed;         /* it is another's turn */
    bool settles;        /* all pages come that have room, and none is used where it lies */
    bool pins;           /* host memory for all of its pages is wanted ahead */
    const char *unfiled; /* why no file was begun that was asked for; NULL: it was */
    uint64_t asked_ns;   /* when a thread waited for the turn last */
    struct pager_in_flight in_flight;
};

struct backend_shares;
struct pager;

extern const struct backend_shares pager_shares;
/* An operation is about to be admitted: waits until it is our turn if the current context is the device's. Under the
 * lock, which waiting releases. */
void pager_turn_wait(struct pager *d);
/* The pager of the current context's device while others want a device; NULL: nobody does. */
struct pager *pager_turn_of_context(void);

#endif
