/* A copy or memset becomes a node of a graph: the driver looks whether something is mapped there. So what moves has
 * been mapped before, and nothing is unmapped until the node is made. */
#include "backend/pager/pager.h"

static __thread bool still[DEVICE_MAX]; /* for this thread */

void pager_still_begin(const struct op *op) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        if (!still[d->ordinal])
            pager_moves_pause(d, true);
        still[d->ordinal] = true;
        bool mapped = true;
        for (uint32_t i = 0; mapped && i < op->count; i++)
            mapped = pager_moves_wait(d, op->touches[i].start, op->touches[i].bytes, false);
        pager_unlock(d);
    }
}

void pager_still_end(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        if (!still[d->ordinal])
            continue;
        pager_lock(d);
        pager_moves_pause(d, false);
        still[d->ordinal] = false;
        pager_wake(d);
        pager_unlock(d);
    }
}
