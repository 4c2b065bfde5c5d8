#include "backend/backend.h"
#include "backend/pager/pager.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/context.h"
#include "driver/fast_path.h"
#include "driver/session.h"

enum { ASKED_NS = 200000000 }; /* a thread that waits says so more often */

static struct lock changing; /* of turns with backend_moves; above a device's lock */

struct pager *pager_turn_of_context(void) {
    bool any = __atomic_load_n(&backend_moves, __ATOMIC_SEQ_CST) & BACKEND_TURN;
    return any ? pager_at(context_device()) : NULL;
}

void pager_turn_wait(struct pager *d) {
    struct pager_turn *turn = &d->admission.turn;
    struct patience patience = {.what = PATIENCE_TURN};
    if (!turn->closed || context_device() != d->ordinal)
        return;
    if (clock_ns() > turn->asked_ns + ASKED_NS && session.device_asks)
        session.device_asks(d->ordinal);
    do
        turn->asked_ns = clock_ns();
    while (turn->closed && !pager_stops(d) && pager_wait(d, &patience));
}

static bool use(int32_t device) {
    if (pager_at(device))
        return true;
    if (device == DEVICE_NONE || context_device() != device)
        return false;
    if (session.backend->serves(device))
        pager_of(device);
    return true;
}

/* The flag is up before a device is closed or has a bound, and as long as one is or has. */
static void forbid_bypass(void) {
    __atomic_fetch_or(&backend_moves, BACKEND_TURN, __ATOMIC_SEQ_CST);
    fast_path_leave(SLOW_TURN);
}

static void allow_bypass(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        if (d->admission.turn.closed || d->admission.turn.in_flight.most_ns)
            return;
    __atomic_fetch_and(&backend_moves, (uint8_t)~BACKEND_TURN, __ATOMIC_SEQ_CST);
    fast_path_restore(SLOW_TURN);
}

static void close_turn(int32_t device, bool closed) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    lock_take(&changing);
    if (closed)
        forbid_bypass();
    pager_lock(d);
    d->admission.turn.closed = closed;
    pager_notify(d);
    pager_unlock(d);
    if (!closed)
        allow_bypass();
    lock_drop(&changing);
}

static void bound(int32_t device, uint64_t most_ns) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    lock_take(&changing);
    if (most_ns)
        forbid_bypass();
    pager_in_flight_bound(d, most_ns);
    if (!most_ns)
        allow_bypass();
    lock_drop(&changing);
}

static void settle(int32_t device, bool settles) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    pager_lock(d);
    d->admission.turn.settles = settles;
    if (d->engine.core)
        pager_all_come(d);
    pager_wake(d);
    pager_unlock(d);
}

static void pin(int32_t device, bool pins) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    pager_lock(d);
    d->admission.turn.pins = pins;
    pager_unlock(d);
}

static void file(int32_t device, const char *folder) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    const char *why = folder ? "only ULMS_BACKEND=vmm knows it" : NULL;
    if (folder && !*folder)
        why = "the driver takes no managed memory (ULMS_BACKEND=um)";
    if (d->kind->file)
        why = d->kind->file(d, folder);
    if (why && *folder)
        log_warn("device %d: host memory does not go to a file in %s: %s", device, folder, why);
    pager_lock(d);
    d->admission.turn.unfiled = why;
    pager_unlock(d);
}

static const char *let_go(int32_t device, bool lets) {
    struct pager *d = pager_at(device);
    const char *why = NULL;
    if (lets && gate_close(&session.foreign, device) > 0)
        why = "the program has handles of host memory, or another process's";
    if (!why && d && d->kind->let_go)
        why = d->kind->let_go(d, lets);
    if (!lets || why)
        gate_open(&session.foreign, device);
    return why;
}

static bool idle(int32_t device) {
    struct pager *d = pager_at(device);
    return !d || pager_idle(d);
}

static struct backend_load load(int32_t device) {
    struct backend_load load = {0};
    struct pager *d = pager_at(device);
    struct ulms_engine_stats engine;
    if (!d)
        return load;
    pager_lock(d);
    ulms_engine_stats(d->engine.core, &engine);
    load.need = d->memory.bytes + d->budget.plain;
    load.held = ledger_plain(session.ledger, device) + larger(d->kind->occupied(d), pager_pages_there(d));
    uint64_t fixed = ledger_plain(session.ledger, device) + d->memory.fixed + d->memory.aside + d->budget.lent;
    load.stays = pager_ended(d) ? load.held : fixed;
    load.lingers = d->budget.bytes ? 0 : pager_pages_lingering(&d->memory.ranges);
    load.refilled = engine.filled_bytes;
    load.evicted = engine.evicted_bytes;
    load.unfiled = d->admission.turn.unfiled;
    d->kind->load(d, &load);
    load.wants = d->admission.turn.asked_ns && clock_ns() < d->admission.turn.asked_ns + ASKED_NS;
    pager_unlock(d);
    return load;
}

const struct backend_shares pager_shares = {.use = use,
                                            .close = close_turn,
                                            .bound = bound,
                                            .settles = settle,
                                            .idle = idle,
                                            .pin = pin,
                                            .file = file,
                                            .let_go = let_go,
                                            .load = load};
