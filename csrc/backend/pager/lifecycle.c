/* A device's state, and its way from having room for everything to moving pages. */
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/pager/pager.h"
#include "base/log.h"
#include "driver/fast_path.h"
#include "driver/session.h"

HOT_DATA uint8_t backend_moves;

static struct pager *devices[DEVICE_MAX];
static int device_count; /* devices that exist are below it */
static struct lock making;
static struct lock turning; /* phases with backend_moves; below a device's lock */

struct pager *pager_at(int32_t ordinal) {
    bool may_be = ordinal >= 0 && ordinal < DEVICE_MAX;
    return may_be ? __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE) : NULL;
}

struct pager *pager_next(const struct pager *d) {
    struct pager *next = NULL;
    int count = __atomic_load_n(&device_count, __ATOMIC_ACQUIRE);
    for (int i = d ? d->ordinal + 1 : 0; !next && i < count; i++)
        next = pager_at(i);
    return next;
}

bool pager_serves(int32_t device, bool (*can_serve)(int32_t device)) {
    enum { UNASKED, SERVED, UNSERVED };
    static uint8_t known[DEVICE_MAX];
    if (device < 0 || device >= DEVICE_MAX)
        return false;
    uint8_t now = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (now == UNASKED) {
        now = can_serve(device) ? SERVED : UNSERVED;
        __atomic_store_n(&known[device], now, __ATOMIC_RELAXED);
    }
    return now == SERVED;
}

HOT bool pager_any_moving(void) {
    return __builtin_expect(__atomic_load_n(&backend_moves, __ATOMIC_SEQ_CST), 0);
}

static void no_more_moving(void) {
    __atomic_fetch_and(&backend_moves, (uint8_t)~BACKEND_MOVES, __ATOMIC_RELEASE);
}

void pager_give_up(struct pager *d, const char *why) {
    if (!phase_enter(&d->phase.now, PHASE_ENDED))
        return;
    log_warn("device %d: %s: its memory %s", d->ordinal, why, d->kind->fallback);
    pager_wake(d);
}

/* The current context is the device's. */
static struct pager *device_new(int32_t ordinal) {
    struct pager *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->kind = session.backend->kind;
    d->ordinal = ordinal;
    pager_contexts_open(d);
    pager_lock(d);
    pager_budget_look(d);
    pager_unlock(d);
    if (pager_engine_open(d))
        return d;
    free(d);
    return NULL;
}

struct pager *pager_of(int32_t ordinal) {
    if (ordinal < 0 || ordinal >= DEVICE_MAX)
        return NULL;
    struct pager *d = pager_at(ordinal);
    if (d)
        return d;
    bool is_new = false;
    lock_take(&making);
    pager_hear_before(devices[ordinal] ? NULL : pager_next(NULL));
    d = devices[ordinal];
    if (!d && (d = device_new(ordinal))) {
        is_new = true;
        __atomic_store_n(&devices[ordinal], d, __ATOMIC_RELEASE);
        if (device_count <= ordinal)
            __atomic_store_n(&device_count, ordinal + 1, __ATOMIC_RELEASE);
    }
    lock_drop(&making);
    if (is_new && session.device_comes)
        session.device_comes(ordinal);
    return d;
}

/* --- from fitting to moving --- */

/* Before anybody waits for what bypasses. */
static bool begin_moving(struct pager *d) {
    lock_take(&turning);
    bool begins = phase_enter(&d->phase.now, PHASE_MOVING);
    if (begins) {
        __atomic_fetch_or(&backend_moves, BACKEND_MOVES, __ATOMIC_SEQ_CST);
        fast_path_leave(SLOW_MOVES);
    }
    lock_drop(&turning);
    return begins;
}

bool pager_stop_moving(struct pager *d) {
    lock_take(&turning);
    bool fits = phase_enter(&d->phase.now, PHASE_FITS), any = false;
    for (const struct pager *other = pager_next(NULL); other && !any; other = pager_next(other))
        any = !pager_all_fits(other); /* where nothing moves any more pages may be away */
    if (fits && !any) {
        no_more_moving();
        fast_path_restore(SLOW_MOVES);
    }
    lock_drop(&turning);
    return fits;
}

void pager_start_moving(struct pager *d, uint64_t bytes) {
    if (!begin_moving(d))
        return;
    log_info("device %d: %.2f GiB are wanted, %.2f may be there at a time: pages move from here on", d->ordinal,
             (double)(d->memory.bytes + bytes) / (1u << 30), (double)d->budget.bytes / (1u << 30));
    pager_hear(d);
    if (!d->markers.watcher.running)
        session_stops_first();
    const char *why = pager_prior_note(d) ? pager_workers_start(d) : "no memory";
    if (why)
        pager_give_up(d, why);
}

/* --- the end --- */

void pager_abandon(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        phase_enter(&d->phase.now, PHASE_STOPPING);
}

static void begin_stop(struct pager *d) {
    pager_lock(d);
    phase_enter(&d->phase.now, PHASE_STOPPING);
    pager_marks_wake(d);
    pager_movers_stop(d);
    pager_wake(d);
    pager_unlock(d);
}

/* All moves that are under way, of all devices, have so long together: with ULMS_VERIFY=1 one takes long, on a busy
 * machine longer. */
void pager_stop(void) {
    no_more_moving();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        begin_stop(d);
    /* behind a gate that nobody will open no thread of ours ends */
    bool gated = patience_gated(), lasts = gated && session.backend->kind->managed;
    uint64_t soon = clock_ns() + (gated || pager_gates_unseen() ? PAGER_GATED_NS : PAGER_JOIN_NS);
    uint64_t moved = clock_ns() + (lasts ? PAGER_GATED_NS : PAGER_MOVED_NS);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_workers_stop(d, soon, moved);
        pager_lock(d);
        pager_publish(d);
        pager_unlock(d);
    }
}
