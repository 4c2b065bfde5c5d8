/* The fast path: nobody asks what kernels and memsets touch, as nothing moves and the framework tells of its blocks
 * (otherwise addresses seen now bound later extents). Such an operation passes without an argument scan, and reads a
 * few lines of memory: one word says why it may not pass; a place of the thread's own says that it is being issued. */
#ifndef ULMS_FAST_PATH_H
#define ULMS_FAST_PATH_H

#include "base/hot.h"
#include "base/thread.h"
#include "driver.h"
#include "driver/home.h"
#include "driver/within.h"
#include "launch/op.h"
#include "observe/stats.h"

/* Why operations take the slow path. */
enum slow_path {
    SLOW_SESSION = 1,   /* nothing is recorded, or everything is to be looked at */
    SLOW_FRAMEWORK = 2, /* it has told of no block yet */
    SLOW_CAPTURE = 4,   /* a stream captures */
    SLOW_TABLES = 8,    /* pointer tables are thought to be whole, which an operation may overwrite */
    SLOW_MOVES = 16,    /* pages have begun to move */
    SLOW_FROZEN = 32,   /* no operation may run for a moment */
    SLOW_TURN = 64,     /* others have the GPU */
    SLOW_JOIN = 128,    /* the program is to share its device, and has not used it yet */
    SLOW_ALL = 255,
};

/* Any thread may end the fast path; the next operation then takes the slow one. fast_path_restore takes the reason
 * back. */
void fast_path_leave(enum slow_path why);
void fast_path_restore(enum slow_path why);
/* After fast_path_leave: the driver has all that passed. Once true it stays so. */
bool fast_path_drained(void);
/* An operation is passing just now. */
bool fast_path_passing(void);

/* The word holds the reasons that do not hold: in a child it is 0, so all of them do. */
static inline uint32_t fast_path_blocked(void) {
    return SLOW_ALL & ~__atomic_load_n(&home.fast_path, __ATOMIC_SEQ_CST);
}
static inline bool fast_path_open(void) {
    return __builtin_expect(__atomic_load_n(&home.fast_path, __ATOMIC_SEQ_CST) == SLOW_ALL, 1);
}

/* The ledger has a new pointer table: an operation may overwrite it. */
void fast_path_leave_for_table(void);
/* Pointer tables are the only reason left: they are doubted from now on, and the fast path is open again. */
void fast_path_doubt_tables(void);
/* Nothing but pointer tables closes the fast path: nobody will ask what the next operation touches. */
static inline bool fast_path_but_for_tables(void) {
    uint32_t whole = __atomic_load_n(&home.fast_path, __ATOMIC_SEQ_CST);
    return __builtin_expect((whole | SLOW_TABLES) == SLOW_ALL, 1);
}

/* The operation passes: fast_path_exit follows the real call, and nothing else is said of it. False: it is looked at.
 */
static inline bool fast_path_enter(struct within *within) {
    struct thread *self = &thread_here;
    if (self->within || self->inside)
        return false;
    if (__builtin_expect(__atomic_load_n(&home.fast_path, __ATOMIC_RELAXED) == (SLOW_ALL & ~SLOW_TABLES), 0))
        fast_path_doubt_tables();
    if (!fast_path_open() || !self->counts)
        return false;
    bool *passing = &home.place[self->slot].passing;
    __atomic_store_n(passing, true, __ATOMIC_SEQ_CST);
    bool still = fast_path_open(); /* either we see that it is closed, or the thread that closed it sees us */
    if (__builtin_expect(still, 1)) {
        within_begin(within);
        self->inside++;
    } else {
        __atomic_store_n(passing, false, __ATOMIC_RELEASE);
    }
    return still;
}

/* It is looked at after all: in the place of the real call and fast_path_exit. */
static inline void fast_path_turn_back(void) {
    struct thread *self = &thread_here;
    self->inside--;
    within_leave(self->within);
    __atomic_store_n(&home.place[self->slot].passing, false, __ATOMIC_RELEASE);
}

static inline CUresult fast_path_exit(CUresult status, enum op_kind kind) {
    struct thread *self = &thread_here;
    struct counts here = {self->counts, false};
    self->inside--;
    within_leave(self->within);
    __atomic_store_n(&home.place[self->slot].passing, false, __ATOMIC_RELEASE);
    if (__builtin_expect(status == CUDA_SUCCESS, 1)) {
        stats_beat(counts_add(here, COUNT_operations, 1));
        counts_add(here, kind == OP_LAUNCH ? COUNT_kernels : COUNT_memsets, 1);
        if (kind != OP_LAUNCH)
            return status;
        counts_add(here, COUNT_launches, 1);
        counts_add(here, COUNT_launches_unread, 1);
    }
    return status;
}

#endif
