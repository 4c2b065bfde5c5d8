/* What the backends that move pages share: one pager for each device that such memory lives on, and what a backend
 * does in its own way (struct pager_kind). */
#ifndef ULMS_PAGER_H
#define ULMS_PAGER_H

#include "backend/pager/admission.h"
#include "backend/pager/allocator.h"
#include "backend/pager/blocks.h"
#include "backend/pager/budget.h"
#include "backend/pager/bypass.h"
#include "backend/pager/contexts.h"
#include "backend/pager/driver_calls.h"
#include "backend/pager/engine.h"
#include "backend/pager/freeze.h"
#include "backend/pager/lifecycle.h"
#include "backend/pager/markers.h"
#include "backend/pager/memory.h"
#include "backend/pager/monitor.h"
#include "backend/pager/movers.h"
#include "backend/pager/opaque.h"
#include "backend/pager/phase.h"
#include "backend/pager/still.h"
#include "backend/pager/watcher.h"
#include "backend/pager/window.h"
#include "base/page.h"

/* What an operation that runs next may use of the memory: only pages that are there, absent ones among those that it
 * shows, too, or any page. */
enum pager_use { PAGER_USES_PRESENT, PAGER_USES_ABSENT, PAGER_USES_ANY };

struct backend_load;
struct pager_kind {
    /* Kernels may touch absent pages, which brings them, and pages can be advised to be mostly read. */
    bool managed;
    const char *fallback; /* for the log: what becomes of its memory when nothing moves any more */
    struct {
        int in, out;
    } movers;       /* of held policies, MOVER_MAX at most: so many a lane */
    uint64_t ahead; /* bytes that are kept free at most, for what comes ahead of need: */
    unsigned runs;  /* so many moves */
    /* The engine knows the memory now: tells it what of that is on the device already, before anything can move. Under
     * the lock. NULL: nothing is. `fits`: all of it should be. */
    void (*arrives)(struct pager *d, addr_t start, uint64_t bytes, bool fits);
    /* Brings it to the device, and tells the engine. Without the lock. NULL: it stays where it is, and so are the next
     * two: the thread that does ends, after PHASE_STOPPING; it does nothing in a context that is about to go. */
    void (*place)(struct pager *d, addr_t start, uint64_t bytes, bool fits);
    void (*placer_stops)(struct pager *d, uint64_t until_ns);
    void (*placer_leaves)(struct pager *d, CUcontext going);
    /* What of the device its pages keep from the rest of the program, as the driver tells what is free: bytes. Under
     * the lock. */
    uint64_t (*occupied)(const struct pager *d);
    /* What of its pages nothing lies on: while nothing moves it may take what the factor leaves out, as without us it
     * would not be there at all. Under the lock. NULL: nothing is. */
    uint64_t (*padding)(const struct pager *d);
    /* Issues a move into the stream, behind which it is done; `waits`: it is done then. False: refused. A mover calls
     * without the lock. */
    bool (*issue)(struct pager *d, const struct pager_move *m, CUstream stream);
    bool waits;
    /* A fill is done once it was issued: who uses its pages before their bytes are there waits in the driver. */
    bool fills_at_once;
    /* Of ulms_engine_holder, `data` is the device; NULL: frames are alike. */
    ulms_holder holder;
    /* See backend_shares.file (under the lock). Returns why it does not; NULL: it does. NULL: host memory stays. */
    const char *(*file)(struct pager *d, const char *folder);
    /* Bytes of the device that are in use only while pages are away. Under the lock. NULL: none are. */
    uint64_t (*lends)(const struct pager *d);
    /* What it adds to what all backends tell. Under the lock. */
    void (*load)(const struct pager *d, struct backend_load *load);
    /* See backend_shares.let_go. Without the lock. NULL: it has no host memory of the driver's. */
    const char *(*let_go)(struct pager *d, bool lets);
    /* An operation waits for its pages as long as any move gets done: to use them where they are now is dear, or cannot
     * be. Under the lock. NULL: it does not. */
    bool (*insists)(struct pager *d, const struct op *op);
    /* It touches pages that are not on the device. Likewise; asked only where an operation insists. */
    bool (*is_away)(struct pager *d, const struct op *op);
    /* The framework told of a block, of which the engine knows. Under the lock. NULL: nothing to do. */
    void (*divided)(struct pager *d, addr_t start, uint64_t bytes);
    /* Content can be discarded, as far as is known. */
    bool (*discards)(void);
    /* The operation may touch pages that it does not show. Under the lock. NULL: that does no harm. */
    enum pager_opacity (*opaque)(struct pager *d, const struct op *op);
    /* The operation was admitted, and runs next. Without the lock. NULL: nothing to do. */
    void (*prepare)(struct pager *d, const struct op *op);
    /* What the operation touches, into d->admission.touches; how many. Under the lock. */
    size_t (*touches)(struct pager *d, const struct op *op);
    /* The operation runs next: makes usable what it may use. serial 0: the engine does not know it. Under the lock, may
     * wait. False: it must not run, as it may use memory that is lost. NULL: nothing to do. */
    bool (*ensure_usable)(struct pager *d, const struct op *op, uint64_t serial, uint64_t ticket, enum pager_use uses);
};

/* Each member that is a struct is changed by the file of its name alone (tests/unit/test_pager_rooms.py). */
struct pager {
    const struct pager_kind *kind;
    int32_t ordinal; /* CUDA ordinal */
    void *own;       /* the backend's; NULL: none yet */
    struct pager_monitor monitor;
    struct pager_phases phase;
    struct pager_engine engine;
    struct pager_memory memory;
    struct pager_budget budget;
    struct pager_blocks blocks;
    struct pager_contexts contexts;
    struct pager_admission admission;
    struct pager_window window;
    struct pager_markers markers;
    struct pager_moves moves;
    struct pager_movers movers;
};

static inline bool pager_all_fits(const struct pager *d) {
    return phase_now(&d->phase.now) == PHASE_FITS;
}
static inline bool pager_moves(const struct pager *d) {
    return phase_now(&d->phase.now) == PHASE_MOVING;
}
static inline bool pager_ended(const struct pager *d) {
    return phase_now(&d->phase.now) >= PHASE_ENDED;
}
static inline bool pager_stops(const struct pager *d) {
    return phase_now(&d->phase.now) >= PHASE_STOPPING;
}
/* Once pages move: else each thread issues the moves of its own operations (ordered.h). */
static inline bool pager_has_movers(const struct pager *d) {
    return d->movers.count > 0;
}

#endif
