/* What the backends that move pages share: one um_device for each device that such memory lives on, and what a backend
 * does in its own way (struct um_kind).
 *
 * Lock order: a device's lock is never held during a driver call that may wait for the device, but by the ordered
 * policies, whose moves are issued under it: nothing of ours ever keeps the device from getting on. */
#ifndef ULMS_UM_H
#define ULMS_UM_H

#include <pthread.h>

#include "base/page.h"
#include "interpose/wrap.h"
#include "types.h"
#include "ulms.h"

enum { LANES = 2, MOVER_MAX = 4, UM_CONTEXTS = 16 };

/* How often a device is asked what is free. */
#define UM_LOOK_NS 1000000000ull
/* Without any progress for so long, waiting is no use: the program itself may hold the device back. */
#define UM_PATIENCE_NS 2000000000ull

/* --- pages: what the engine does not know of them (um_page.c) --- */

struct um_page {
    /* 1 + the ticket of the last operation issued before the framework took back the last block here; 0: the content
     * may matter to somebody. Only what was issued before may still use it, known to us or not. */
    uint64_t died;
    bool kept;    /* advised to be mostly read */
    bool written; /* in spite of that advice: it is not given again */
};

struct um_range {
    addr_t start;
    uint64_t bytes; /* whole pages */
    struct um_page page[];
};

struct um_piece {
    addr_t start;
    uint64_t bytes;
};

struct um_ranges {
    struct um_range **at; /* by address */
    size_t count, capacity;
};

bool um_range_add(struct um_ranges *r, addr_t start, uint64_t bytes);
/* NULL: none starts there. The caller frees it. */
struct um_range *um_range_take(struct um_ranges *r, addr_t start);
/* Calls for each page of [start, end) that there is. */
void um_pages_visit(struct um_ranges *r, addr_t start, addr_t end, void (*visit)(struct um_page *, addr_t, void *),
                    void *data);
/* Sets `died` of each. */
void um_pages_died(struct um_ranges *r, addr_t start, addr_t end, uint64_t died);
/* The parts of [start, end) that are of one allocation each, n at most; returns how many. */
int um_ranges_split(const struct um_ranges *r, addr_t start, addr_t end, struct um_piece *piece, int n);
/* The page at p; NULL: there is none. */
struct um_page *um_page_at(const struct um_ranges *r, addr_t p);

/* --- operations that were issued and have not retired (um_window.c) --- */

enum um_stage { UM_RETIRED, UM_ISSUED, UM_MARKED };

struct um_operation {
    enum um_stage stage;
    bool known;      /* to the engine; a kernel that is not may reach any page through addresses that we do not see */
    uint64_t serial; /* the engine's; not known: of the last known one before */
    CUevent event;   /* recorded behind it; UM_MARKED only */
};

/* Operations have tickets, from 1, in the order in which they were issued. */
struct um_window {
    struct um_operation *ring; /* ticket % capacity */
    uint64_t capacity;         /* power of two, or 0 */
    uint64_t oldest, next;     /* every ticket below oldest has retired; next has not been issued */
    uint64_t last;             /* serial */
};

/* Serial 0: the engine does not know it. Returns its ticket; 0: no memory, or far too many have not retired. */
uint64_t um_window_issue(struct um_window *w, uint64_t serial);
/* event NULL: there is none. */
void um_window_mark(struct um_window *w, uint64_t ticket, CUevent event);
/* Returns the serial, if the engine knows of it; else 0. */
uint64_t um_window_retire(struct um_window *w, uint64_t ticket);
/* By serial. */
struct um_operation um_window_find(const struct um_window *w, uint64_t serial);

/* --- markers: events behind operations and moves, which tell that these are done (um_marker.c) --- */

struct um_marker {
    CUevent event;
    CUcontext context;
    uint64_t stream;
    uint32_t thread; /* for the stream of each thread; else 0 */
    bool is_move;
    uint64_t id; /* the operation's ticket, the move's id */
    struct um_marker *next;
};

struct um_marks {
    struct um_marker *first, **last; /* recorded and not seen by the watcher */
    struct um_marker *spare;
    struct um_queue *queues; /* the watcher's alone */
};

struct um_device;

/* Records behind what the stream holds now; moving ends where that cannot be done. Takes the lock; the caller does not
 * have it. */
void um_mark(struct um_device *d, const struct op *op, uint64_t ticket);
/* The same for a move, on a stream of ours. The caller has the lock. False: not recorded. */
bool um_mark_move(struct um_device *d, CUstream stream, uint64_t id, CUevent *event);
/* The watcher's: takes over what was recorded; true when something is pending. Under the lock. */
bool um_marks_take(struct um_device *d);
/* The watcher's: asks the driver; a list of those that are done. Without the lock. */
struct um_marker *um_marks_poll(struct um_device *d);
/* Back among the spare ones. Under the lock. */
void um_mark_spare(struct um_device *d, struct um_marker *m);
/* The driver's answer that a context is gone, and all its work with it. */
bool um_gone(CUresult status);
/* The spare ones of a context that goes. Under the lock. */
void um_marks_forget(struct um_device *d, CUcontext context);

/* --- the driver's calls on managed memory (um_driver.c). False: refused; the program never sees it --- */

/* device: CUDA ordinal, or DEVICE_NONE for the host. */
bool um_prefetch(addr_t start, uint64_t bytes, int32_t device, CUstream stream);
/* The content is lost, until the next write. Only where the driver can, as far as is known. */
bool um_can_discard(void);
bool um_discard(addr_t start, uint64_t bytes, CUstream stream);
bool um_advise_mostly_read(addr_t start, uint64_t bytes, int32_t device, bool mostly);
CUstream um_stream_new(void);
/* Waits for all that is in a stream of ours. */
bool um_stream_finish(CUstream stream);
/* A context of ours, current afterwards. NULL: refused. */
CUcontext um_context_new(int32_t device);
/* On a thread of the program: our calls do not spoil its captures, and see the context. um_leave undoes it. */
struct um_visit {
    CUstreamCaptureMode mode;
    bool pushed;
};
struct um_visit um_enter(CUcontext context);
void um_leave(struct um_visit v);

/* --- moves (um_move.c) --- */

enum { UM_RUN_PAGES = 16 }; /* the most of one move */

/* A move that the engine gave out, with what the pages say of it. */
struct um_move {
    struct ulms_move m;
    /* The driver takes no call over two allocations, though they lie side by side. */
    struct um_piece piece[UM_RUN_PAGES];
    int pieces;
    bool discard;      /* the content may be lost */
    bool keep, unkeep; /* advise before */
    bool failed;
    CUevent event; /* ordered: recorded behind it, once it was issued */
    struct um_move *next;
};

/* Takes the lane's next move and enters it among those under way. Under the lock. */
struct um_move *um_move_take(struct um_device *d, int lane);
/* It is done, or failed: the engine knows. Under the lock. */
void um_move_done(struct um_device *d, uint64_t id, bool ok);
struct um_move *um_move_find(struct um_device *d, uint64_t id);
/* Issues it: managed memory. */
bool um_move_issue(struct um_device *d, const struct um_move *m, CUstream stream);
bool um_moves_any(const struct um_device *d, addr_t start, uint64_t bytes);
/* Waits until no move of the range is under way; of those that discard, if so asked. Other moves of ordered policies
 * may be behind the program's own gate: for these it waits as long as patience lasts. Under the lock. */
void um_moves_wait(struct um_device *d, addr_t start, uint64_t bytes, bool discards_only);

/* --- what a backend does in its own way --- */

struct um_kind {
    /* Kernels may touch absent pages, which brings them, and pages can be advised to be mostly read. */
    bool managed;
    const char *over; /* what becomes of its memory when nothing moves any more */
    struct {
        int count, lane[MOVER_MAX];
    } movers; /* of held policies */
    /* The memory has arrived: tells the engine what of it is on the device. `fits`: all of it should be. Without the
     * lock. */
    void (*place)(struct um_device *d, addr_t start, uint64_t bytes, bool fits);
    /* What of the device its pages keep from the rest of the program, as the driver tells what is free: bytes. Under
     * the lock. */
    uint64_t (*occupied)(const struct um_device *d);
    /* Issues a move into the stream, behind which it is done. False: refused. A mover calls without the lock. */
    bool (*issue)(struct um_device *d, const struct um_move *m, CUstream stream);
    /* What the operation touches, into d->touches; how many. Under the lock. */
    size_t (*touches)(struct um_device *d, const struct op *op);
    /* The operation runs next; serial 0: the engine does not know it. Under the lock, may wait. NULL: nothing to do. */
    void (*passes)(struct um_device *d, const struct op *op, uint64_t serial);
};

/* --- threads (um_worker.c) --- */

struct um_worker {
    pthread_t thread;
    bool running;
};

struct um_mover {
    struct um_worker worker;
    struct um_device *device;
    int lane;
};

/* Under the lock. False: no thread could be started. */
bool um_workers_start(struct um_device *d);
/* Joins them, after d->stopping. Without the lock. */
void um_workers_stop(struct um_device *d);

/* --- ordered policies (um_ordered.c) --- */

/* One thread at a time tells of an operation and issues its moves: what these come after was issued before, so that its
 * thread waits for nothing but the driver until it is marked. Under the lock. */
void um_order_begin(struct um_device *d);
void um_order_end(struct um_device *d);
/* Issues the moves that the operation needs, and makes its stream wait for them. In between, under the lock. */
void um_order(struct um_device *d, const struct op *op, uint64_t serial);

/* --- budget (um_budget.c) --- */

struct um_budget {
    uint64_t capacity; /* bytes the program's memory may occupy, all kinds */
    uint64_t bytes;    /* of these, what pages may */
    uint64_t plain;    /* plain memory when it was worked out */
    uint64_t looked_ns;
};

/* Works it out again and tells the engine; `look`: asks the device what is free. Under the lock, with a context. */
void um_budget_update(struct um_device *d, bool look);

/* --- statistics (um_stats.c) --- */

/* Adds to the counters what the engine has counted since. Under the lock. */
void um_publish(struct um_device *d);

/* --- a device --- */

struct um_device {
    const struct um_kind *kind;
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* a move or an operation is done, memory went, or moving ended */
    pthread_cond_t work[LANES]; /* there may be a move to take */
    pthread_cond_t marked;      /* the watcher has something to watch */
    int32_t ordinal;            /* CUDA ordinal */
    bool moving;                /* not everything fits: operations are told to the engine, pages move */
    bool over;                  /* nothing ever moves again */
    bool stopping;              /* and its threads end */
    bool held;                  /* the policy's kind; else ordered */
    bool ordering;              /* a thread is issuing moves */
    struct ulms_engine *engine;
    struct ulms_engine_stats told; /* what um_publish has told */
    uint64_t told_ns;              /* when */
    struct um_ranges ranges;
    uint64_t bytes; /* of ours, in whole pages */
    /* Bytes of the device that the engine does not rule: of memory that never moves, that left and is not freed. */
    uint64_t fixed, left;
    struct vmm *vmm; /* NULL: managed memory, or none yet */
    struct um_budget budget;
    struct um_window window;
    struct um_marks marks;
    struct um_move *under_way;
    uint64_t progress;     /* operations and moves that are done */
    uint64_t stalled;      /* the oldest operation when patience ran out last; until it has retired nobody has any */
    CUcontext own_context; /* the movers'; NULL: they use the next one */
    bool own_asked;
    CUcontext context;       /* of the program; NULL: it is gone, no other one seen yet */
    uint64_t epoch;          /* of context: streams of an earlier one may be gone */
    CUcontext place_context; /* place_stream's */
    CUstream place_stream;
    CUstream lane_stream[LANES]; /* ordered policies; of lane_context */
    CUstream discard_stream;     /* likewise; nothing in it waits for anything */
    CUcontext lane_context;
    uint64_t past;                        /* ticket of the operation that stands for all before `moving` */
    bool unsure;                          /* nobody told when that was done: no content is ever lost */
    CUcontext past_contexts[UM_CONTEXTS]; /* where it may still run */
    int past_count;
    struct um_mover movers[MOVER_MAX];
    struct um_worker watcher, outlaster;
    struct ulms_engine_touch touches[TOUCH_MAX]; /* the operation's, while it is told */
};

static inline void um_lock(struct um_device *d) {
    pthread_mutex_lock(&d->lock);
}
static inline void um_unlock(struct um_device *d) {
    pthread_mutex_unlock(&d->lock);
}
/* Something happened: whoever waits looks again. Under the lock. */
void um_wake(struct um_device *d);
/* Waits, until CLOCK_MONOTONIC `until_ns` at most. Under the lock. */
void um_wait_for(struct um_device *d, pthread_cond_t *what, uint64_t until_ns);
/* Of one wait; all 0 at its beginning. */
struct um_patience {
    uint64_t seen, until_ns;
};
/* Waits until something changed. False: there was no progress for UM_PATIENCE_NS; the next call begins anew. Under the
 * lock. */
bool um_wait(struct um_device *d, struct um_patience *p);
/* Patience ran out, and what kept the device then still does. Under the lock. */
bool um_stalled(const struct um_device *d);
/* The operation is done on the device, or never came to it. Under the lock. */
void um_retired(struct um_device *d, uint64_t ticket);
/* Nothing moves from now on. Under the lock. */
void um_give_up(struct um_device *d, const char *why);

/* --- devices (um_device.c) --- */

/* The first (NULL) and the next of those that managed memory ever was on; NULL: there is none. */
struct um_device *um_device_next(const struct um_device *d);
/* The same, made if need be; the current context is the device's. NULL: no memory. */
struct um_device *um_device_of(int32_t ordinal);
/* On any device. Asked on every operation. */
bool um_any_moving(void);
void um_no_more_moving(void);
/* The memory of which the engine knows does not fit together with the bytes that are about to be told to it. Under the
 * lock. */
void um_start_moving(struct um_device *d, uint64_t bytes);
/* The calling thread's context. */
CUcontext um_current(void);

/* um.c: see backend.h */
void um_admit(struct op *op);
void um_settle(const struct op *op);
void um_arrived(addr_t start, uint64_t bytes, int32_t device);
void um_plain(int32_t device);
void um_leaving(addr_t start, uint64_t bytes);
void um_block(addr_t start, uint64_t bytes, bool live);
void um_forget(uint64_t context);
void um_stop(void);
/* The operation's own touches. */
size_t um_touches(struct um_device *d, const struct op *op);

/* um_memory.c: managed memory */
extern const struct um_kind um_managed;
/* vmm.c */
extern const struct um_kind um_remapped;
/* Brings managed memory that is about to be used, and waits for it; on the calling thread. */
bool um_bring(struct um_device *d, addr_t start, uint64_t bytes);

#endif
