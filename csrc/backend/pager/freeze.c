/* A moment in which nothing runs that the program issued: memory may then be mapped anew that the engine does not
 * move, also where operations are not told to it. An operation that comes meanwhile waits in our own code. */

#include "backend/backend.h"
#include "backend/pager/pager.h"
#include "driver/context.h"
#include "driver/fast_path.h"
#include "driver/session.h"

enum { LOOK_US = 100, IDLE_LOOK_US = 2000 };

static bool is_frozen(void) {
    return __atomic_load_n(&backend_moves, __ATOMIC_SEQ_CST) & BACKEND_FROZEN;
}

/* The flag is set before anybody looks at tickets, under the same lock: an operation has one then, or waits. */
bool pager_frozen_wait(struct pager *d) {
    struct patience patience = {.what = PATIENCE_NEED};
    while (is_frozen() && pager_wait(d, &patience))
        ;
    return !is_frozen();
}

/* Of all that one attempt waits for. */
struct bound {
    uint64_t until_ns;
    const bool *given_up;
};

static bool lasts(const struct bound *b) {
    return clock_ns() < b->until_ns && !__atomic_load_n(b->given_up, __ATOMIC_RELAXED);
}

/* What the device's engine was told has retired, and what it was not told the driver has. Under the lock. */
static bool is_still(const struct pager *d) {
    return pager_bypasses_over(d) && d->window.oldest == d->window.next;
}

static bool no_move(const struct pager *d) {
    return !d->moves.under_way;
}

static bool wait_until(struct pager *d, bool (*is)(const struct pager *), const struct bound *b) {
    pager_lock(d);
    pager_refit_again(d); /* it is no work of the program's */
    while (!is(d) && !pager_stops(d) && lasts(b)) {
        pager_unlock(d);
        thread_sleep(LOOK_US);
        pager_lock(d);
    }
    bool come = is(d);
    pager_unlock(d);
    return come;
}

/* What is only looked at owes nothing to the program's own waits (base/patience.h). */
static bool is_idle(uint64_t context, const struct bound *b) {
    CUresult status;
    while ((status = context_idle((CUcontext)(uintptr_t)context, 0)) == CUDA_ERROR_NOT_READY && lasts(b))
        thread_sleep(IDLE_LOOK_US);
    return status == CUDA_SUCCESS || status == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Every context that has memory, of one device or of all (DEVICE_NONE): its streams have run all that they were given.
 */
static bool all_idle(int32_t device, const struct bound *b) {
    struct allocation list[LEDGER_LISTED];
    uint64_t last = 0;
    addr_t from = 0;
    for (size_t n; (n = ledger_list(session.ledger, from, list, LEDGER_LISTED)) > 0; from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++) {
            if (list[i].context && list[i].context != last && list[i].managed &&
                (device == DEVICE_NONE || list[i].device == device) && !is_idle(list[i].context, b))
                return false;
            last = list[i].managed ? list[i].context : last;
        }
    return true;
}

bool pager_idle(struct pager *d) {
    static const bool never = false;
    const struct bound once = {0, &never};
    pager_lock(d);
    pager_refit_again(d);
    bool still = !pager_bypassing(d) && d->window.oldest == d->window.next;
    pager_unlock(d);
    return still && all_idle(d->ordinal, &once);
}

/* A device may be new when the moment is over. */
static bool paused[DEVICE_MAX];

static void pause_moves(bool pause) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        if (pause || paused[d->ordinal])
            pager_moves_pause(d, pause);
        paused[d->ordinal] = pause;
        pager_unlock(d);
    }
}

/* Those under way end: their movers wait for the driver alone. */
static bool stop_moves(const struct bound *b) {
    bool none = true;
    pause_moves(true);
    for (struct pager *d = pager_next(NULL); d && none; d = pager_next(d))
        none = wait_until(d, no_move, b);
    if (!none)
        pause_moves(false);
    return none;
}

static void let_operations_run(void) {
    __atomic_fetch_and(&backend_moves, (uint8_t)~BACKEND_FROZEN, __ATOMIC_SEQ_CST);
    fast_path_restore(SLOW_FROZEN);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_wake(d);
        pager_unlock(d);
    }
}

bool pager_freeze(uint64_t patience_ns, const bool *given_up) {
    const struct bound bound = {clock_ns() + patience_ns, given_up}, *b = &bound;
    bool still = true;
    __atomic_fetch_or(&backend_moves, BACKEND_FROZEN, __ATOMIC_SEQ_CST);
    fast_path_leave(SLOW_FROZEN);
    for (struct pager *d = pager_next(NULL); d && still; d = pager_next(d))
        still = wait_until(d, is_still, b);
    still = still && all_idle(DEVICE_NONE, b) && stop_moves(b);
    if (!still)
        let_operations_run();
    return still;
}

void pager_thaw(void) {
    pause_moves(false);
    let_operations_run();
}
