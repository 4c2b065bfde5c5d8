/* What the backends that move pages share: one pager for each device that such memory lives on, and what a backend
 * does in its own way (struct pager_kind).
 *
 * Lock order: a device's lock is never held during a driver call that may wait for the device, but by the ordered
 * policies, whose moves are issued under it: nothing of ours ever keeps the device from getting on. */
#ifndef ULMS_PAGER_H
#define ULMS_PAGER_H

#include <pthread.h>

#include "backend/pager/markers.h"
#include "backend/pager/pages.h"
#include "backend/pager/phase.h"
#include "backend/pager/window.h"
#include "backend/pager/worker.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver.h"
#include "driver/capture.h"
#include "types.h"
#include "ulms.h"

enum { LANES = 2, MOVER_MAX = 8, PAGER_CONTEXTS = 16 };

/* How often a device is asked what is free. */
#define PAGER_LOOK_NS 1000000000ull

/* --- the driver's calls (driver_calls.c). Refused ones are counted; the program never sees it --- */

/* Whether it was done; counted and told where it was not: what, and of how many bytes. */
bool pager_done(CUresult status, const char *what, uint64_t bytes);
/* False: it has not, or the driver does not tell. */
bool pager_device_has(CUdevice_attribute attribute, int32_t device);
CUstream pager_stream_new(void);
/* Waits for all that is in a stream of ours. */
bool pager_stream_finish(CUstream stream);
/* A context of ours, current afterwards. NULL: refused. */
CUcontext pager_context_new(int32_t device);
/* Of all its memory; 0: the driver does not tell. */
uint64_t pager_device_bytes(int32_t device);
/* On a thread of the program: our calls see the context, and spoil no capture if capture_allows them. pager_leave
 * undoes it. */
struct pager_visit {
    struct relaxed relaxed;
    bool entered;
    CUcontext before;
};
struct pager_visit pager_enter(CUcontext context);
void pager_leave(struct pager_visit v);

/* --- moves (moves.c) --- */

enum { PAGER_RUN_PAGES = 16 }; /* the most of one move */

/* A move that the engine gave out, with what the pages say of it. */
struct pager_move {
    struct ulms_move m;
    uint64_t begun_ns; /* for the trace; 0: there is none */
    /* The driver takes no call over two allocations, though they lie side by side. */
    struct pager_piece piece[PAGER_RUN_PAGES];
    int pieces;
    bool discard;          /* the content may be lost */
    bool reborn;           /* but a block was born there since */
    bool keep, unkeep;     /* mostly read: advise before */
    bool in_place, recall; /* used on the host: advise after; take the advice back before */
    bool begun;            /* the driver may be doing it */
    bool abandoned;        /* the engine knows that it failed; it is over once its mover comes back */
    bool vacated;  /* its frames of the device are given up, as the engine knows; its pages are not mapped yet */
    CUevent event; /* ordered: recorded behind it, once it was issued */
    struct pager_move *next, *after; /* under way; ready in its lane */
};

/* Takes the lane's next move and enters it among those under way. Under the lock. */
struct pager_move *pager_move_take(struct pager *d, int lane);
/* What it takes from the device is gone: the engine knows that it is done, and nobody uses its pages before
 * pager_move_done. Under the lock. */
void pager_move_vacated(struct pager *d, uint64_t id);
/* It is done, or failed: the engine knows. Under the lock. */
void pager_move_done(struct pager *d, uint64_t id, bool ok);
struct pager_move *pager_move_find(struct pager *d, uint64_t id);
/* One is under way, abandoned or not. Under the lock. */
bool pager_moves_any(const struct pager *d, addr_t start, uint64_t bytes);
/* Moves of the range that can be given up are, so that its pages may be used where they lie: all that have not begun,
 * and of managed memory all but those that lose content. Under the lock. */
void pager_moves_abandon(struct pager *d, addr_t start, uint64_t bytes);
/* Waits until no move of the range is under way; of those that discard, if so asked. Once patience has run out the rest
 * is abandoned: the program may hold it back. False: what could not be abandoned goes on for longer than any driver
 * takes. Under the lock. */
bool pager_moves_wait(struct pager *d, addr_t start, uint64_t bytes, bool discards_only);
/* A block was born there: an operation that uses it unseen is not to lose what it writes, and waits for those that
 * discard there now, whatever it shows. Under the lock, which waiting releases. */
void pager_moves_reborn(struct pager *d, addr_t start, uint64_t bytes);
bool pager_moves_wait_reborn(struct pager *d);
/* Waits until no move in the range has vacated and not mapped its pages. *waited: it did. False as above. Under the
 * lock. */
bool pager_moves_wait_mapped(struct pager *d, addr_t start, uint64_t bytes, bool *waited);

/* --- blocks of the framework's allocator (blocks.c) --- */

/* Whether the engine hears of them: from the first time that pages move, that there is a second device, or that a
 * capture gets some. */
bool pager_hears(void);
/* From now on. The device is the only one. Under the lock; pager_hear_before takes it, and takes NULL. */
void pager_hear(struct pager *d);
void pager_hear_before(struct pager *d);

struct pager_block {
    addr_t start;
    uint64_t bytes;
    bool live;
};

/* Told, and the engine has not heard of them: the threads that tell would wait for who plans moves. */
enum { PAGER_TOLD_MAX = 64 };
struct pager_told {
    pthread_mutex_t lock; /* below the device's */
    struct pager_block block[PAGER_TOLD_MAX];
    uint32_t count;                           /* atomic */
    struct pager_block heard[PAGER_TOLD_MAX]; /* of these the engine is just hearing. Under the device's lock */
};
/* The engine hears of all of them. Under the lock. */
void pager_blocks_hear(struct pager *d);

/* --- operations that are held for their pages (waiters.c) --- */

/* On the stack of its thread. */
struct pager_waiter {
    uint64_t ticket, serial;
    int at_once;   /* it is to run without its pages where these do not come */
    int answer;    /* the engine's; ULMS_HOLD where nothing moves any more */
    bool answered; /* atomic, set under the lock */
    struct pager_waiter *next;
};

/* Holds the operation until the engine lets it run, or patience has run out; adds how long. Returns the engine's
 * answer; ULMS_HOLD: nothing moves any more, or it must not run, as what uses its pages does not end. Under the lock,
 * which is released meanwhile. */
int pager_hold(struct pager *d, const struct op *op, uint64_t serial, uint64_t ticket, uint64_t *waited_ns);
/* Something happened: the engine is asked for each. pager_wake does. Under the lock. */
void pager_held_ask(struct pager *d);
/* One that was issued before waits still. Under the lock. */
bool pager_older_waits(const struct pager *d, uint64_t ticket);
/* Of kernels by their function, of all else by the call. */
uint64_t pager_key(const struct op *op);
/* The operation was held since then for pages of so many bytes: tells counters and trace. Returns nanoseconds. */
uint64_t pager_tell_held(const struct pager *d, const struct op *op, uint64_t began_ns, uint64_t missing);

/* --- what bypasses the engine while nothing moves (bypass.c) --- */

/* True: the engine hears of no blocks, and the thread's is counted until pager_block_bypass_end: the ledger has it.
 */
bool pager_block_bypass_begin(void);
/* False: it was not counted. */
bool pager_block_bypass_end(void);
bool pager_block_bypasses_over(void);

/* True: nothing moves anywhere, and the thread's operation, which was looked at, is counted until pager_bypass_end: the
 * driver has it. */
bool pager_bypass_begin(void);
/* False: it was not counted. */
bool pager_bypass_end(void);
/* The driver has all that was not told to the device's engine. Once pages move there this stays true. */
bool pager_bypasses_over(const struct pager *d);

/* --- opaque operations: they may touch pages that they do not show (opaque.c). Nothing moves while one runs ---
 */

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

/* --- a moment in which no operation runs (freeze.c) --- */

/* On return nothing that the program issued runs, no operation is admitted and no move begins, on any device, until
 * pager_thaw. False: something ran still after so long, or *given_up is true, and nothing has changed. On a thread of
 * ours, one at a time, without a lock. */
bool pager_freeze(uint64_t patience_ns, const bool *given_up);
void pager_thaw(void);
/* An operation that is about to be admitted waits until pager_thaw. False: that lasts for longer than any driver takes,
 * and it must not run. Under the lock, which waiting releases. */
bool pager_frozen_wait(struct pager *d);

/* --- what a backend does in its own way --- */

/* What an operation that runs next may use of the memory: only pages that are there, absent ones among those that it
 * shows, too, or any page. */
enum pager_use { PAGER_USES_PRESENT, PAGER_USES_ABSENT, PAGER_USES_ANY };

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
    void (*placer_stops)(struct pager *d, const struct timespec *until);
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
    /* The framework told of a block, of which the engine knows. Under the lock. NULL: nothing to do. */
    void (*divided)(struct pager *d, addr_t start, uint64_t bytes);
    /* Content can be discarded, as far as is known. NULL: it cannot. */
    bool (*discards)(void);
    /* The operation may touch pages that it does not show. Under the lock. NULL: that does no harm. */
    enum pager_opacity (*opaque)(struct pager *d, const struct op *op);
    /* The operation was admitted, and runs next. Without the lock. NULL: nothing to do. */
    void (*prepare)(struct pager *d, const struct op *op);
    /* What the operation touches, into d->touches; how many. Under the lock. */
    size_t (*touches)(struct pager *d, const struct op *op);
    /* The operation runs next: makes usable what it may use. serial 0: the engine does not know it. Under the lock, may
     * wait. False: it must not run, as it may use memory that is lost. NULL: nothing to do. */
    bool (*ensure_usable)(struct pager *d, const struct op *op, uint64_t serial, enum pager_use uses);
};

/* --- ordered policies (ordered.c) --- */

/* One thread at a time tells of an operation and issues its moves: what these come after was issued before, so that its
 * thread waits for nothing but the driver until it is marked. Under the lock. */
void pager_order_begin(struct pager *d);
void pager_order_end(struct pager *d);
/* Issues the moves that the operation needs, and makes its stream wait for them. In between, under the lock. */
void pager_order(struct pager *d, const struct op *op, uint64_t serial);

/* --- budget (budget.c) --- */

struct pager_budget {
    uint64_t capacity; /* bytes the program's memory may occupy, all kinds */
    uint64_t room;     /* of these, what is left for pages */
    uint64_t bytes;    /* the same in whole pages */
    uint64_t plain;    /* plain memory when it was worked out */
    uint64_t looked_ns;
};

/* Works it out again and tells the engine. Under the lock. */
void pager_budget_update(struct pager *d);
/* Asks the current context's device first what is free. Under the lock, which is released meanwhile. */
void pager_budget_look(struct pager *d);

/* capacity_granted has changed: a pager of the device begins to move pages at once if it has to. */
void pager_granted(int32_t device);
/* See backend.h, for the pager of a device. Takes the lock. */
void pager_budget_comes(struct pager *d, int64_t bytes);

/* There is room for so many bytes of pages more. The last page may be used in part only: what lies there fits, too.
 * Under the lock. */
bool pager_fits(const struct pager *d, uint64_t bytes);

/* --- back to where everything fits (refit.c) --- */

struct pager_refit {
    uint64_t since_ns; /* it has all fit since then; 0: it does not */
    bool begun, admitted;
    uint64_t serial, ticket; /* of the operation that stands for all memory, once begun; 0: there is no memory */
};

/* The watcher's: brings what is away once all memory fits, and then ends PHASE_MOVING. Returns when it looks next,
 * CLOCK_MONOTONIC; UINT64_MAX: once something happens. Under the lock. */
uint64_t pager_refit(struct pager *d);
/* There is memory of which it does not know, or less room. Under the lock. */
void pager_refit_again(struct pager *d);

/* --- statistics (stats.c) --- */

/* Adds to the counters what the engine has counted since. Under the lock. */
void pager_publish(struct pager *d);

/* --- a device --- */

struct pager {
    const struct pager_kind *kind;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a move or an operation is done, memory went, or moving ended */
    int32_t ordinal;        /* CUDA ordinal */
    enum pager_phase phase;
    bool held;     /* the policy's kind; else ordered */
    bool ordering; /* a thread is issuing moves */
    struct ulms_engine *engine;
    struct ulms_engine_stats told; /* what pager_publish has told */
    uint64_t told_ns;              /* when */
    uint32_t run_pages;            /* the most of one move */
    struct pager_ranges ranges;
    struct pager_ranges still_advised; /* memory that left while the driver's advice is still set */
    uint64_t bytes;                    /* of ours, in whole pages, but for what was freed and is unused */
    /* Bytes of the device that the engine does not rule: of memory that never moves; of pages that left the engine and
     * are not released yet. */
    uint64_t fixed, aside;
    uint64_t coming; /* plain memory that is about to be there */
    struct vmm *vmm; /* NULL: managed memory, or none yet */
    struct pager_budget budget;
    struct pager_refit refit;
    struct pager_window window;
    struct pager_marks marks;
    struct pager_told blocks;
    struct pager_move *under_way;
    uint64_t progress_ns; /* when an operation or a move was done last */
    struct pager_own own[MOVER_MAX];
    bool looking;      /* the watcher asks the driver, in `context` */
    CUcontext context; /* of the program; NULL: it is gone, no other one seen yet */
    uint64_t epoch;    /* of context: streams of an earlier one may be gone */
    struct pager_place {
        CUcontext context; /* NULL: none */
        CUstream stream;
    } places[PAGER_CONTEXTS];   /* for what is brought for the program's threads */
    pthread_cond_t asked;       /* the placer */
    struct um_request *placing; /* by the placer: the first, then what waits for it */
    struct pager_worker placer;
    bool placer_asked, placer_serves;
    CUstream lane_stream[LANES]; /* ordered policies; of lane_context */
    CUstream discard_stream;     /* likewise; nothing in it waits for anything */
    CUcontext lane_context;
    uint32_t untracked;           /* operations under way that were not told, as nothing moved here yet; atomic */
    uint32_t pause_count;         /* of who lets no move begin: operations until they are admitted */
    struct pager_waiter *waiters; /* oldest first */
    pthread_cond_t answered;      /* one of them was */
    /* Prior work: issued before PHASE_MOVING. It counts as one operation, until the drainer has seen it done; then 0.
     */
    uint64_t prior_ticket;
    bool prior_gated;                         /* some of it may wait for the program */
    bool draining;                            /* the drainer waits for work of the program's. Atomic */
    bool drain_incomplete;                    /* nobody tells when all of it is done: no content is ever discarded */
    CUcontext prior_contexts[PAGER_CONTEXTS]; /* where it may still run */
    int prior_count;
    struct pager_mover movers[MOVER_MAX];
    int mover_count; /* so many may run */
    struct pager_lane lanes[LANES];
    struct pager_worker watcher, drainer;
    struct ulms_engine_touch *touches; /* the operation's, while it is told; a graph may have any number */
    size_t touch_room;
    uint64_t largest; /* bytes that one operation touched at most */
};

static inline bool pager_all_fits(const struct pager *d) {
    return phase_now(&d->phase) == PHASE_FITS;
}
static inline bool pager_moves(const struct pager *d) {
    return phase_now(&d->phase) == PHASE_MOVING;
}
static inline bool pager_ended(const struct pager *d) {
    return phase_now(&d->phase) >= PHASE_ENDED;
}
static inline bool pager_stops(const struct pager *d) {
    return phase_now(&d->phase) >= PHASE_STOPPING;
}

/* One that is held for a moment, as a thread that sleeps is woken for more than that. */
void pager_lock_open(pthread_mutex_t *lock);
/* Who takes it hears of every block that was told before. */
void pager_lock(struct pager *d);
void pager_unlock(struct pager *d);
/* Those that are chosen, before the lock is released otherwise. Under the lock. */
void pager_movers_wake(struct pager *d);
/* Something happened: whoever waits looks again, and idle movers get the moves that can be made now. Under the lock. */
void pager_wake(struct pager *d);
/* Moves may have become possible, and no thread waits for that: the watcher hands them out when it looks next, or this
 * thread does while it sleeps. To wake a mover takes longer than most operations. Under the lock. */
void pager_stir(struct pager *d);
/* Of CLOCK_MONOTONIC. */
void pager_condition_open(pthread_cond_t *condition);
/* Of nanoseconds. */
struct timespec pager_timespec(uint64_t ns);
/* Waits until something changed, for a moment at most. False: patience has run out. Under the lock. */
__attribute__((warn_unused_result)) bool pager_wait(struct pager *d, struct patience *p);
/* The same until an operation that is held was answered. */
__attribute__((warn_unused_result)) bool pager_wait_for_answer(struct pager *d, struct patience *p);
/* An operation or a move is done. Under the lock. */
void pager_progressed(struct pager *d);
/* The operation is done on the device, or never came to it. Under the lock. */
void pager_retired(struct pager *d, uint64_t ticket);
/* Nothing moves from now on. Under the lock. */
void pager_give_up(struct pager *d, const char *why);

/* --- devices (lifecycle.c) --- */

/* The first (NULL) and the next of those that managed memory ever was on; NULL: there is none. */
struct pager *pager_next(const struct pager *d);
/* The same, made if need be; the current context is the device's. NULL: no memory. */
struct pager *pager_of(int32_t ordinal);
/* What `can_serve` says of the device, which it is asked once and tells where it cannot. */
bool pager_serves(int32_t device, bool (*can_serve)(int32_t device));
/* On any device, or operations are frozen. Asked on every operation. */
bool pager_any_moving(void);
void pager_no_more_moving(void);
/* The memory of which the engine knows does not fit together with the bytes that are about to be told to it. Under the
 * lock. */
void pager_start_moving(struct pager *d, uint64_t bytes);
/* Everything fits and is there: operations are not told any more. False: nothing moved. Under the lock. */
bool pager_stop_moving(struct pager *d);
/* The calling thread's context. */
CUcontext pager_current(void);

/* pager/pager.c: see backend.h */
void pager_admit(struct op *op);
void pager_settle(const struct op *op);
void pager_arrived(addr_t start, uint64_t bytes, int32_t device);
/* For memory that is about to be told to the engine. Under the lock, which may be released meanwhile. */
void pager_make_room(struct pager *d, uint64_t bytes);
bool pager_crowded(int32_t device, uint64_t bytes);
void pager_plain(int32_t device);
void pager_coming(int32_t device, int64_t bytes);
void pager_freeing(addr_t start, uint64_t bytes);
bool pager_free_deferred(addr_t start, uint64_t bytes, bool unused);
void pager_block_before(void);
void pager_block(addr_t start, uint64_t bytes, bool live);
void pager_forget(uint64_t context);
void pager_forgotten(uint64_t gone);
/* No move may begin, as the memory of a context goes with it. */
bool pager_forgets(void);
void pager_jumped(void);
/* pager_still.c: struct backend has them. */
void pager_still_begin(const struct op *op);
void pager_still_end(void);
void pager_abandon(void);
void pager_stop(void);
/* The operation's own touches. Nothing moves any more where there is no memory for them. */
size_t pager_touches(struct pager *d, const struct op *op);

extern const struct pager_kind um_kind, vmm_kind;

#endif
