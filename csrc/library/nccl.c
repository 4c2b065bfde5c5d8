/* NCCL: ranks, and groups. Between ncclGroupStart and the ncclGroupEnd that belongs to it calls only say what is to be
 * done: that one launches all of it. So what they tell is kept until then, and all is admitted before anything runs. A
 * kernel of one communicator may wait on the device for that of another, which the same thread launches after it.
 *
 * Peers use a rank's buffers only while the rank's own kernel runs, so what it keeps from moving covers them. What they
 * map of registered memory is pinned or refused by the driver's functions that give it to them. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/lock.h"
#include "driver/real.h"
#include "driver/session.h"
#include "library.h"
#include "library/call.h"

/* The thread's. NULL until its first one. */
static __thread struct group {
    uint32_t depth;
    bool untold; /* a call of it told nothing, or there was no room */
    uint32_t count;
    struct touch touches[TOUCH_MAX];
} *group;

static void give_back(struct thread *t) {
    (void)t;
    free(group);
    group = NULL;
}

static void promise_to_give_back(void) {
    static struct thread_end at_end = {.run = give_back};
    thread_at_end(&at_end);
}

static void begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, promise_to_give_back);
    if (!group && thread_self())
        group = calloc(1, sizeof *group);
    if (group)
        group->depth++;
}

/* True: the outermost one has ended. */
static bool end(void) {
    return group && group->depth > 0 && --group->depth == 0;
}

static void forget(void) {
    group->count = 0;
    group->untold = false;
}

void nccl_told(struct call *call) {
    bool tells = call_tells(call);
    if (!group || group->depth == 0) {
        if (tells)
            call_told(call);
        return;
    }
    uint32_t room = TOUCH_MAX - group->count, n = tells && call->front < room ? call->front : 0;
    memcpy(&group->touches[group->count], call->touches, n * sizeof *call->touches);
    group->count += n;
    group->untold |= n < call->front || !tells;
}

ncclResult_t custom_ncclGroupStart(int variant) {
    ncclResult_t status = REAL(ncclGroupStart, variant)();
    if (status == ncclSuccess)
        begin();
    return status;
}

ncclResult_t custom_ncclGroupEnd(int variant) {
    struct call *call = NULL;
    if (end()) {
        call = call_open(API_ncclGroupEnd, CALL_WHOLE);
        if (call && call_tells(call)) {
            call->hides |= group->untold;
            call_take(call, group->touches, group->count);
            call_told(call);
        }
        forget();
    }
    ncclResult_t status = REAL(ncclGroupEnd, variant)();
    if (call)
        call_close(call);
    return status;
}

ncclResult_t custom_ncclGroupSimulateEnd(int variant, ncclSimInfo_t *simInfo) {
    if (end())
        forget();
    return REAL(ncclGroupSimulateEnd, variant)(simInfo);
}

ncclResult_t custom_ncclRedOpCreatePreMulSum(int variant, ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                             ncclScalarResidence_t residence, ncclComm_t comm) {
    addr_t address = (addr_t)(uintptr_t)scalar;
    if (residence == ncclScalarDevice && session_on && session.backend->pin_reachable)
        session.backend->pin_reachable(&address, 1);
    return REAL(ncclRedOpCreatePreMulSum, variant)(op, scalar, datatype, residence, comm);
}

int64_t nccl_rank(int variant, ncclComm_t comm) {
    int rank = -1;
    return REAL(ncclCommUserRank, variant)(comm, &rank) == ncclSuccess ? rank : -1;
}

int64_t nccl_ranks(int variant, ncclComm_t comm) {
    int ranks = 0;
    return REAL(ncclCommCount, variant)(comm, &ranks) == ncclSuccess ? ranks : 0;
}
