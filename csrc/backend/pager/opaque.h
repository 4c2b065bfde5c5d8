/* Opaque operations: they may touch pages that they do not show. Nothing moves while one runs. */
#ifndef ULMS_PAGER_OPAQUE_H
#define ULMS_PAGER_OPAQUE_H

#include <stdbool.h>
#include <stdint.h>

struct pager;

/* What an operation may touch beside what it shows. */
enum pager_opacity {
    PAGER_TRANSPARENT,  /* nothing: pages move beside it */
    PAGER_PAUSES_MOVES, /* pages that are away: no move is under way when it is admitted */
    PAGER_OPAQUE,       /* any page: nor is one until it has retired */
};

/* The operation runs next: waits until what was held before has its pages, and no move is under way; none begins before
 * pager_opaque_admitted. Ticket 0: it has none, as nothing new moves. False: a move does not end, and it must not run.
 * Under the lock. */
bool pager_opaque_begin(struct pager *d, uint64_t ticket, enum pager_opacity how);
void pager_opaque_admitted(struct pager *d);
/* No move may begin. Under the lock. */
bool pager_opaque_runs(const struct pager *d);

#endif
