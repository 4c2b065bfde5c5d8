/* Opaque operations. Moves and they take turns: one waits for all moves under way, and none begins until it has
 * retired.
 *
 * Who waits for pages goes first: an opaque operation would keep them from coming, and the next one would again. */
#include "backend/pager/pager.h"
#include "observe/stats.h"

bool pager_opaque_begin(struct pager *d, uint64_t ticket, enum pager_opacity how) {
    struct patience patience = {0};
    while (pager_moves(d) && pager_older_waits(d, ticket) && pager_wait(d, &patience))
        ;
    pager_moves_pause(d, true);
    if (how == PAGER_OPAQUE)
        pager_window_set_opaque(&d->window, ticket);
    stats_add(COUNT_opaque, ticket > 0);
    return pager_moves_wait(d, 0, UINT64_MAX, false);
}

void pager_opaque_admitted(struct pager *d) {
    pager_moves_pause(d, false);
    pager_wake(d);
}

bool pager_opaque_runs(const struct pager *d) {
    return pager_forgets() || d->moves.paused > 0 || d->window.opaque > 0;
}
