#include "backend/pager/phase.h"

/* From each phase to each. */
static const bool leads[PHASES][PHASES] = {
    [PHASE_FITS] = {[PHASE_MOVING] = true, [PHASE_STOPPING] = true},
    [PHASE_MOVING] = {[PHASE_FITS] = true, [PHASE_ENDED] = true, [PHASE_STOPPING] = true},
    [PHASE_ENDED] = {[PHASE_STOPPING] = true},
    [PHASE_STOPPING] = {[PHASE_STUCK] = true},
};

bool phase_enter(enum pager_phase *p, enum pager_phase next) {
    enum pager_phase now = phase_now(p);
    while (leads[now][next])
        if (__atomic_compare_exchange_n(p, &now, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return true;
    return false;
}
