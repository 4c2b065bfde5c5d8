/* At rest: nobody asks what kernels and memsets touch, as nothing moves and the framework tells of its blocks
 * (addresses seen now bound extents later, else). Then such an operation passes without having been looked at, over a
 * few lines of memory: one word says why it may not, and a place of the thread's own that it is just being issued. */
#ifndef ULMS_REST_H
#define ULMS_REST_H

#include "base/hot.h"
#include "base/thread.h"
#include "driver.h"
#include "driver/home.h"
#include "driver/within.h"
#include "launch/op.h"
#include "observe/stats.h"

enum unrest {
    UNREST_SESSION = 1,   /* nothing is recorded, or everything is to be looked at */
    UNREST_FRAMEWORK = 2, /* it has told of no block yet */
    UNREST_CAPTURE = 4,   /* a stream captures */
    UNREST_TABLES = 8,    /* pointer tables are thought to be whole, which an operation may overwrite */
    UNREST_MOVES = 16,    /* pages have begun to move */
    UNREST_FROZEN = 32,   /* no operation may run for a moment */
    UNREST_ALL = 63,
};

void rest_break(enum unrest why);
void rest_mend(enum unrest why);
/* After rest_break: the driver has all that passed. Once true it stays so. */
bool rest_over(void);

/* Kept as what does not break it, so that in a child, where the word is 0, all does. */
static inline uint32_t rest_broken(void) {
    return UNREST_ALL & ~__atomic_load_n(&home.rest, __ATOMIC_SEQ_CST);
}
static inline bool rest_now(void) {
    return __builtin_expect(__atomic_load_n(&home.rest, __ATOMIC_SEQ_CST) == UNREST_ALL, 1);
}

/* The ledger has a new pointer table. */
void rest_break_for_table(void);
/* Where the rest is broken for the sake of pointer tables alone, as operations may overwrite them: they are doubted,
 * and it is mended. */
void rest_doubt_tables(void);
/* What an operation that comes next touches will not be asked for. */
static inline bool rest_but_for_tables(void) {
    uint32_t whole = __atomic_load_n(&home.rest, __ATOMIC_SEQ_CST);
    return __builtin_expect((whole | UNREST_TABLES) == UNREST_ALL, 1);
}

/* The operation passes: rest_leave follows the real call, and nothing else is said of it. False: it is looked at. */
static inline bool rest_enter(struct within *within) {
    struct thread *self = &thread_here;
    if (self->within || self->inside)
        return false;
    if (__builtin_expect(__atomic_load_n(&home.rest, __ATOMIC_RELAXED) == (UNREST_ALL & ~UNREST_TABLES), 0))
        rest_doubt_tables();
    if (!rest_now() || !self->counts)
        return false;
    bool *passing = &home.place[self->slot].passing;
    __atomic_store_n(passing, true, __ATOMIC_SEQ_CST);
    bool still = rest_now(); /* either we see that it is not, or who broke it sees us */
    if (__builtin_expect(still, 1)) {
        within_begin(within);
        self->inside++;
    } else {
        __atomic_store_n(passing, false, __ATOMIC_RELEASE);
    }
    return still;
}

/* It is looked at after all: in the place of the real call and rest_leave. */
static inline void rest_turn_back(void) {
    struct thread *self = &thread_here;
    self->inside--;
    within_leave(self->within);
    __atomic_store_n(&home.place[self->slot].passing, false, __ATOMIC_RELEASE);
}

static inline CUresult rest_leave(CUresult status, enum op_kind kind) {
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
