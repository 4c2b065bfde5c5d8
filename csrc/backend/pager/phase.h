/* The phases of a pager: what it does with the operations of its device.
 *
 *     FITS ───── not everything fits ─────▶ MOVING ───── it cannot go on ─────▶ ENDED
 *       ▲                                     │
 *       └── everything fits again, and is here┘
 *
 *     each of them ──── the process ends ────▶ STOPPING ──── the driver keeps a mover ────▶ STUCK
 *
 * The phase changes under the device's lock, but for STOPPING, which a handler of a signal may enter without it. */
#ifndef ULMS_PAGER_PHASE_H
#define ULMS_PAGER_PHASE_H

#include "backend/pager/prior.h"
#include "backend/pager/refit.h"

enum pager_phase {
    PHASE_FITS,     /* everything is on the device: the engine hears of no operation */
    PHASE_MOVING,   /* operations are told to the engine, pages move */
    PHASE_ENDED,    /* nothing ever moves again */
    PHASE_STOPPING, /* nor do threads of ours begin anything */
    PHASE_STUCK,    /* and one of them does not end */
    PHASES
};

struct pager_phases {
    enum pager_phase now;
    struct pager_prior prior; /* work that leads to MOVING */
    struct pager_refit refit; /* the way back */
};

static inline enum pager_phase phase_now(const enum pager_phase *p) {
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
/* False: the present phase has no way there, and stays. */
bool phase_enter(enum pager_phase *p, enum pager_phase next);

#endif
