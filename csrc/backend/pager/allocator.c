#include "backend/pager/pager.h"
#include "driver/capture.h"
#include "driver/session.h"

void pager_block_before(void) {
    if (!capture_any() && pager_block_bypass_begin()) /* what a capture gets must be remembered */
        return;
    pager_hear_before(pager_next(NULL));
    pager_hear_wait();
}

void pager_block(addr_t start, uint64_t bytes, bool live) {
    struct pager_block b = {start, bytes, live};
    if (pager_block_bypass_end() || (!live && ledger_is_captured(session.ledger, start)))
        return;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        bool later = pager_block_put(d, &b);
        if (later && (live || __atomic_load_n(&d->markers.watched, __ATOMIC_SEQ_CST)))
            continue;  /* the watcher hears of it before it sleeps */
        pager_lock(d); /* who waits for a block to die may be the only one left */
        pager_blocks_hear(d);
        if (!later)
            pager_block_hear(d, &b);
        if (pager_moves(d))
            pager_wake(d);
        pager_unlock(d);
    }
}
