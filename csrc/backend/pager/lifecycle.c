/* A device's state, and its way from having room for everything to moving pages. */
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/pager/pager.h"
#include "base/hot.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/fast_path.h"
#include "driver/session.h"

enum { RUN_BYTES = 32 << 20, SHARE = 16, SLICE_NS = 50000000 };

HOT_DATA uint8_t backend_moves;

static struct pager *devices[DEVICE_MAX];
static int device_count; /* devices that exist are below it */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t turning = PTHREAD_MUTEX_INITIALIZER; /* phases with backend_moves; below a device's lock */

static struct pager *device_at(int ordinal) {
    return __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE);
}

struct pager *pager_next(const struct pager *d) {
    struct pager *next = NULL;
    int count = __atomic_load_n(&device_count, __ATOMIC_ACQUIRE);
    for (int i = d ? d->ordinal + 1 : 0; !next && i < count; i++)
        next = device_at(i);
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

void pager_no_more_moving(void) {
    __atomic_fetch_and(&backend_moves, (uint8_t)~BACKEND_MOVES, __ATOMIC_RELEASE);
}

CUcontext pager_current(void) {
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent, 0)(&context);
    return context;
}

void pager_condition_open(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
}

struct timespec pager_timespec(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

void pager_lock(struct pager *d) {
    pthread_mutex_lock(&d->lock);
    pager_blocks_hear(d);
}

void pager_unlock(struct pager *d) {
    unsigned chosen[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        chosen[lane] = d->lanes[lane].chosen;
        d->lanes[lane].chosen = 0;
    }
    pthread_mutex_unlock(&d->lock);
    for (int lane = 0; lane < LANES; lane++)
        for (; chosen[lane] > 0; chosen[lane]--)
            pthread_cond_signal(&d->lanes[lane].work);
}

/* A thread of the program that is cancelled here would keep the lock. */
static void wait_for(struct pager *d, pthread_cond_t *what, uint64_t until_ns) {
    struct timespec until = pager_timespec(until_ns);
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pager_movers_wake(d);
    pthread_cond_timedwait(what, &d->lock, &until);
    pthread_setcancelstate(before, &before);
}

/* In slices: a gate may be closed meanwhile. */
static bool wait_at(struct pager *d, pthread_cond_t *what, struct patience *p) {
    uint64_t left = patience_left(p, d->progress_ns);
    if (left > 0)
        wait_for(d, what, clock_ns() + (left < SLICE_NS ? left : SLICE_NS));
    return left > 0;
}

bool pager_wait(struct pager *d, struct patience *p) {
    return wait_at(d, &d->changed, p);
}

bool pager_wait_for_answer(struct pager *d, struct patience *p) {
    return wait_at(d, &d->answered, p);
}

void pager_progressed(struct pager *d) {
    d->progress_ns = clock_ns();
}

void pager_retired(struct pager *d, uint64_t ticket) {
    uint64_t serial = pager_window_retire(&d->window, ticket);
    pager_progressed(d);
    if (serial)
        ulms_engine_retired(d->engine, serial, d->progress_ns);
}

void pager_give_up(struct pager *d, const char *why) {
    if (!phase_enter(&d->phase, PHASE_ENDED))
        return;
    log_warn("device %d: %s: its memory %s", d->ordinal, why, d->kind->fallback);
    pager_wake(d);
}

void pager_lock_open(pthread_mutex_t *lock) {
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &adaptive);
}

static struct ulms_engine *engine_new(struct pager *d) {
    uint64_t share = d->budget.bytes / SHARE / page_bytes * page_bytes;
    uint64_t ahead = share < d->kind->ahead ? share : d->kind->ahead, run = ahead / d->kind->runs;
    run = run < RUN_BYTES ? run : RUN_BYTES;
    d->run_pages = run < page_bytes ? 1 : (uint32_t)(run / page_bytes);
    struct ulms_engine_settings settings = {
        .policy = ulms_options.policy,
        .page_bytes = page_bytes,
        .budget = d->budget.bytes,
        .run_bytes = (uint64_t)d->run_pages * page_bytes,
        .ahead_bytes = ahead,
        .keeps = 1,
        .faults = d->kind->managed,
        .in_place = d->held ? ULMS_IN_PLACE_ALL : ULMS_IN_PLACE_NOTHING,
    };
    struct ulms_engine *e = ulms_engine_new(&settings);
    if (e && d->kind->holder)
        ulms_engine_holder(e, d->kind->holder, d);
    return e;
}

/* The current context is the device's. */
static struct pager *device_new(int32_t ordinal) {
    struct pager *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->kind = ulms_options.mode == MODE_VMM ? &vmm_kind : &um_kind;
    d->ordinal = ordinal;
    d->epoch = 1; /* 0 is of our own contexts */
    d->held = ulms_policy_holds(ulms_options.policy);
    pager_lock_open(&d->lock);
    pager_lock_open(&d->marks.lock);
    pager_lock_open(&d->blocks.lock);
    pager_condition_open(&d->changed);
    pager_condition_open(&d->answered);
    pager_condition_open(&d->asked);
    pager_condition_open(&d->marks.recorded);
    for (int lane = 0; lane < LANES; lane++)
        pager_condition_open(&d->lanes[lane].work);
    pager_lock(d);
    pager_budget_look(d);
    pager_unlock(d);
    d->engine = engine_new(d);
    if (!d->engine) {
        free(d);
        return NULL;
    }
    return d;
}

struct pager *pager_of(int32_t ordinal) {
    if (ordinal < 0 || ordinal >= DEVICE_MAX)
        return NULL;
    struct pager *d = device_at(ordinal);
    if (d)
        return d;
    pthread_mutex_lock(&making);
    pager_hear_before(devices[ordinal] ? NULL : pager_next(NULL));
    d = devices[ordinal];
    if (!d && (d = device_new(ordinal))) {
        __atomic_store_n(&devices[ordinal], d, __ATOMIC_RELEASE);
        if (device_count <= ordinal)
            __atomic_store_n(&device_count, ordinal + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&making);
    return d;
}

/* --- from fitting to moving --- */

static void note_contexts(struct pager *d) {
    struct allocation list[LEDGER_LISTED];
    addr_t from = 0;
    CUcontext current = pager_current();
    d->context = current ? current : d->context;
    d->prior_count = 0;
    d->prior_contexts[d->prior_count++] = d->context;
    for (size_t n; (n = ledger_list(session.ledger, from, list, LEDGER_LISTED)) > 0; from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++) {
            CUcontext context = (CUcontext)(uintptr_t)list[i].context;
            int k = 0;
            while (k < d->prior_count && d->prior_contexts[k] != context)
                k++;
            if (!context || !list[i].managed || k < d->prior_count)
                continue;
            if (k < PAGER_CONTEXTS)
                d->prior_contexts[d->prior_count++] = context;
            else
                d->drain_incomplete = true;
        }
}

/* One operation stands for all that was issued before: it may have touched everything. False: no memory. */
static bool tell_prior(struct pager *d) {
    uint64_t wait;
    struct ulms_engine_touch *touches = calloc(d->ranges.count + 1, sizeof *touches);
    if (!touches)
        return false;
    for (size_t i = 0; i < d->ranges.count; i++) {
        struct pager_range *r = d->ranges.at[i].range;
        touches[i] = (struct ulms_engine_touch){r->start, r->bytes, ULMS_TOUCH_UPDATE};
    }
    pager_pages_died(&d->ranges, 0, UINT64_MAX, 0);
    uint64_t serial = ulms_engine_issued(d->engine, 0, touches, d->ranges.count);
    free(touches);
    d->prior_ticket = pager_window_issue(&d->window, serial);
    if (serial)
        ulms_engine_admit(d->engine, serial, 1, &wait);
    return d->prior_ticket && (serial || d->ranges.count == 0);
}

/* Before anybody waits for what bypasses. */
static bool begin_moving(struct pager *d) {
    pthread_mutex_lock(&turning);
    bool begins = phase_enter(&d->phase, PHASE_MOVING);
    if (begins) {
        __atomic_fetch_or(&backend_moves, BACKEND_MOVES, __ATOMIC_SEQ_CST);
        fast_path_leave(SLOW_MOVES);
    }
    pthread_mutex_unlock(&turning);
    return begins;
}

bool pager_stop_moving(struct pager *d) {
    pthread_mutex_lock(&turning);
    bool fits = phase_enter(&d->phase, PHASE_FITS), any = false;
    for (const struct pager *other = pager_next(NULL); other && !any; other = pager_next(other))
        any = pager_moves(other);
    if (fits && !any) {
        pager_no_more_moving();
        fast_path_restore(SLOW_MOVES);
    }
    pthread_mutex_unlock(&turning);
    return fits;
}

void pager_start_moving(struct pager *d, uint64_t bytes) {
    if (!begin_moving(d))
        return;
    note_contexts(d);
    log_info("device %d: %.2f GiB are wanted, %.2f may be there at a time: pages move from here on", d->ordinal,
             (double)(d->bytes + bytes) / (1u << 30), (double)d->budget.bytes / (1u << 30));
    pager_hear(d);
    if (!d->watcher.running)
        session_stops_first();
    d->prior_gated = pager_gates_unseen();
    patience_gates(d->prior_gated);
    const char *why = tell_prior(d) ? pager_workers_start(d) : "no memory";
    if (why)
        pager_give_up(d, why);
}
