/* A device's state, and its way from having room for everything to moving pages. */
#include <stdlib.h>

#include "backend/um.h"
#include "base/log.h"
#include "base/thread.h"
#include "interpose/session.h"

enum { RUN_BYTES = UM_RUN_PAGES * PAGE_BYTES, AHEAD_BYTES = 64 << 20, SHARE = 16 };

static struct um_device *devices[DEVICE_MAX];
static int device_count; /* devices that exist are below it */
static bool any_moving;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static struct um_device *device_at(int ordinal) {
    return __atomic_load_n(&devices[ordinal], __ATOMIC_ACQUIRE);
}

struct um_device *um_device_next(const struct um_device *d) {
    struct um_device *next = NULL;
    int count = __atomic_load_n(&device_count, __ATOMIC_ACQUIRE);
    for (int i = d ? d->ordinal + 1 : 0; !next && i < count; i++)
        next = device_at(i);
    return next;
}

bool um_any_moving(void) {
    return __builtin_expect(__atomic_load_n(&any_moving, __ATOMIC_ACQUIRE), 0);
}

void um_no_more_moving(void) {
    __atomic_store_n(&any_moving, false, __ATOMIC_RELEASE);
}

CUcontext um_current(void) {
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent, 0)(&context);
    return context;
}

void um_wake(struct um_device *d) {
    pthread_cond_broadcast(&d->changed);
    for (int lane = 0; lane < LANES; lane++)
        pthread_cond_broadcast(&d->work[lane]);
}

void um_wait_for(struct um_device *d, pthread_cond_t *what, uint64_t until_ns) {
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    pthread_cond_timedwait(what, &d->lock, &until);
}

bool um_wait(struct um_device *d, struct um_patience *p) {
    uint64_t now = clock_ns();
    if (!p->until_ns || p->seen != d->progress)
        *p = (struct um_patience){d->progress, now + UM_PATIENCE_NS};
    if (now < p->until_ns) {
        um_wait_for(d, &d->changed, p->until_ns);
        return true;
    }
    p->until_ns = 0;
    d->stalled = d->window.oldest;
    return false;
}

bool um_stalled(const struct um_device *d) {
    return d->stalled && d->stalled == d->window.oldest;
}

void um_retired(struct um_device *d, uint64_t ticket) {
    uint64_t serial = um_window_retire(&d->window, ticket);
    if (serial)
        ulms_engine_retired(d->engine, serial, 0);
    d->progress++;
}

void um_give_up(struct um_device *d, const char *why) {
    if (!d->moving)
        return;
    log_warn("device %d: %s: its memory %s", d->ordinal, why, d->kind->over);
    d->moving = false;
    d->over = true;
    um_wake(d);
}

static struct ulms_engine *engine_new(const struct um_device *d) {
    uint64_t share = d->budget.bytes / SHARE / PAGE_BYTES * PAGE_BYTES;
    struct ulms_engine_settings settings = {
        .policy = ulms_options.policy,
        .page_bytes = PAGE_BYTES,
        .budget = d->budget.bytes,
        .run_bytes = share < PAGE_BYTES  ? PAGE_BYTES
                     : share < RUN_BYTES ? share
                                         : RUN_BYTES,
        .ahead_bytes = share < AHEAD_BYTES ? share : AHEAD_BYTES,
        .keeps = 1,
        .faults = d->kind->managed,
    };
    return ulms_engine_new(&settings);
}

/* The current context is the device's. */
static struct um_device *device_new(int32_t ordinal) {
    struct um_device *d = calloc(1, sizeof *d);
    pthread_condattr_t monotonic;
    if (!d)
        return NULL;
    d->kind = ulms_options.mode == MODE_VMM ? &um_remapped : &um_managed;
    d->ordinal = ordinal;
    d->held = ulms_policy_holds(ulms_options.policy);
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &monotonic);
    pthread_cond_init(&d->marked, &monotonic);
    for (int lane = 0; lane < LANES; lane++)
        pthread_cond_init(&d->work[lane], &monotonic);
    um_budget_update(d, true);
    d->engine = engine_new(d);
    if (!d->engine) {
        free(d);
        return NULL;
    }
    return d;
}

struct um_device *um_device_of(int32_t ordinal) {
    if (ordinal < 0 || ordinal >= DEVICE_MAX)
        return NULL;
    struct um_device *d = device_at(ordinal);
    if (d)
        return d;
    pthread_mutex_lock(&making);
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

static void note_contexts(struct um_device *d) {
    struct allocation list[64];
    addr_t from = 0;
    d->past_contexts[d->past_count++] = d->context;
    for (size_t n; (n = ledger_list(session.ledger, from, list, 64)) > 0; from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++) {
            CUcontext context = (CUcontext)(uintptr_t)list[i].context;
            int k = 0;
            while (k < d->past_count && d->past_contexts[k] != context)
                k++;
            if (!context || !list[i].managed || k < d->past_count)
                continue;
            if (k < UM_CONTEXTS)
                d->past_contexts[d->past_count++] = context;
            else
                d->unsure = true;
        }
}

/* One operation stands for all that was issued before: it may have touched everything. False: no memory. */
static bool tell_past(struct um_device *d) {
    uint64_t wait;
    struct ulms_engine_touch *touches = calloc(d->ranges.count + 1, sizeof *touches);
    if (!touches)
        return false;
    for (size_t i = 0; i < d->ranges.count; i++) {
        struct um_range *r = d->ranges.at[i];
        touches[i] = (struct ulms_engine_touch){r->start, r->bytes, ULMS_TOUCH_UPDATE};
    }
    um_pages_died(&d->ranges, 0, UINT64_MAX, 0);
    uint64_t serial = ulms_engine_issued(d->engine, 0, touches, d->ranges.count);
    free(touches);
    d->past = um_window_issue(&d->window, serial);
    if (serial)
        ulms_engine_admit(d->engine, serial, 1, &wait);
    return d->past && (serial || d->ranges.count == 0);
}

void um_start_moving(struct um_device *d, uint64_t bytes) {
    d->context = um_current();
    note_contexts(d);
    d->moving = true;
    log_info("device %d: %.2f GiB are wanted, %.2f may be there at a time: pages move from here on", d->ordinal,
             (double)(d->bytes + bytes) / (1u << 30), (double)d->budget.bytes / (1u << 30));
    if (tell_past(d) && um_workers_start(d))
        __atomic_store_n(&any_moving, true, __ATOMIC_RELEASE);
    else
        um_give_up(d, "no memory or no thread");
}
