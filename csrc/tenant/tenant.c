#define _GNU_SOURCE
#include "tenant/tenant.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/capacity.h"
#include "base/lock.h"
#include "driver/capture.h"
#include "observe/stats.h"
#include "tenant/signal.h"
#include "tenant/state.h"

/* How long its thread sleeps, and the end waits for it. */
enum {
    SHRINKS_NS = 200000,   /* while it holds more than it may */
    BOUND_NS = 200000,     /* while others wait for the end of its turn */
    HAS_TURN_NS = 1000000, /* while others want the device, too */
    WAITS_NS = 20000000,   /* without a turn */
    RELEASED_NS = 100000000,
    ALONE_NS = 500000000,  /* until it looks whether the broker lives */
    AGAIN_NS = 1000000000, /* until it looks for a broker again */
    END_NS = 1000000000
};

/* Contexts of tenants lie beside what they share: so much of the device is left to them. */
enum { OTHERS = 16 };
#define LINK_RATE 45000000000ull /* bytes a second each way; the broker learns what a switch takes */

static struct tenant *tenants[DEVICE_MAX];
static bool stopping;  /* atomic; told under `end` */
static uint32_t asked; /* atomic */
static struct lock end;
static struct condition ends;

/* Of its turn, or to it. */
static bool is_handed_over(const struct tenant *t) {
    uint64_t since = t->drains ? t->drains_ns : t->elected_ns;
    return (t->drains || t->elected) && clock_ns() < since + SHARE_HAND_OVER_NS;
}

static bool stops(void) {
    return __atomic_load_n(&stopping, __ATOMIC_ACQUIRE);
}

/* What the lease knows of what the program asked for, and what it asks for now. */
static void hear(struct tenant *t, uint32_t heard) {
    if (heard)
        __atomic_store_n(&t->heard, heard, __ATOMIC_RELEASE);
    if (t->released && tenants_asked() != t->asked && tenants_asked() % 2 == 0)
        log_warn("device %d: not resumed: its context is not on the GPU: `pump resume %d` brings it back", t->device,
                 (int)getpid());
    tenant_ask(t);
}

/* How long there is nothing to do then; 0: it is to look again at once. */
static uint64_t serve(struct tenant *t) {
    uint32_t heard = __atomic_load_n(&t->to.page->asked, __ATOMIC_ACQUIRE); /* before the lease */
    if (tenant_is_released(t)) {
        hear(t, heard);
        return RELEASED_NS;
    }
    tenant_read(t);
    if (t->drains)
        tenant_drained(t);
    if (t->unacknowledged)
        tenant_acknowledge(t);
    tenant_file(t);
    tenant_report(t);
    if (!stops())
        tenant_release(t);
    hear(t, heard);
    uint64_t age = clock_ns() - t->read_ns;
    return is_handed_over(t)                         ? 0
           : t->drains                               ? HAS_TURN_NS
           : t->unacknowledged && age < AGAIN_NS     ? SHRINKS_NS
           : t->unacknowledged && t->lease.suspended ? HAS_TURN_NS /* somebody waits for it, also if it is alone */
           : t->closed                               ? WAITS_NS
           : tenant_is_alone(t)                      ? ALONE_NS
           : tenant_is_bound(t)                      ? BOUND_NS
                                                     : HAS_TURN_NS;
}

static void learn(struct tenant *t) {
    const struct share_option *o = &ulms_options.share;
    size_t total = 0;
    CUuuid uuid = {{0}};
    t->hello = (struct share_hello){.rate = LINK_RATE, .sets = o->settings.said != 0, .settings = o->settings.to};
    snprintf(t->hello.group, sizeof t->hello.group, "%s", o->name);
    REAL(cuDeviceTotalMem_v2, 0)(&total, t->device);
    REAL(cuDeviceGetUuid_v2, 0)(&uuid, t->device);
    memcpy(t->hello.gpu, uuid.bytes, sizeof t->hello.gpu);
    t->hello.capacity = total - total / OTHERS;
}

static struct share_message hello(struct tenant *t) {
    if (!t->hello.capacity)
        learn(t);
    t->hello.held = t->released ? t->latest.policy.resident : tenant_backend()->load(t->device).held;
    return (struct share_message){.hello = t->hello};
}

static bool join(struct tenant *t) {
    struct share_message m = hello(t);
    if (!connection_open(&t->to, &m))
        return false;
    t->lease = (struct policy_lease){.serial = 0, .pin = t->lease.pin};
    t->sequence = 0;
    t->release = t->to.page->file.number;
    t->serial = 0;
    t->wanted = false;
    __atomic_store_n(&t->away, 0, __ATOMIC_RELAXED);
    t->asked = tenants_asked();
    __atomic_store_n(&t->heard, t->asked, __ATOMIC_RELEASE);
    return true;
}

/* It runs on with the budget that it had, and nothing else binds it. */
static void leave(struct tenant *t) {
    if (t->to.page)
        capacity_group(t->device, __atomic_load_n(&t->to.page->quota.memory, __ATOMIC_RELAXED), 0);
    connection_close(&t->to);
    tenant_unsuspend(t);
    tenant_close(t, false);
    __atomic_store_n(&t->together, false, __ATOMIC_RELAXED);
    tenant_backend()->settles(t->device, false);
    tenant_backend()->bound(t->device, 0);
    t->drains = t->elected = t->unacknowledged = t->settles = false;
}

static void lose(struct tenant *t) {
    if (t->released) {
        connection_close(&t->to);
        log_warn("the broker is gone, and the program's context is not on the GPU: `pump share start` and then `pump "
                 "resume %d` bring it back",
                 (int)getpid());
        return;
    }
    leave(t);
    log_warn("the broker is gone: the program runs as if it were alone, with the memory that it had");
}

/* What would stand in the way of who writes the process to a disk. Its context is away. */
static void hang_up(struct tenant *t) {
    connection_close(&t->to);
    stats_hide();
    log_info("device %d: it hangs up until a checkpoint is written", t->device);
}

/* The driver would let nothing end while a context is away: who resumes the program finds its thread here. */
static bool is_over(const struct tenant *t) {
    return stops() && !__atomic_load_n(&t->released, __ATOMIC_ACQUIRE);
}

/* While there is no connection. */
static void sleep_until_over(const struct tenant *t, uint64_t ns) {
    uint64_t until_ns = clock_ns() + ns;
    lock_take(&end);
    while (!is_over(t) && clock_ns() < until_ns)
        condition_wait(&ends, &end, until_ns);
    lock_drop(&end);
}

static void *run(void *data) {
    struct tenant *t = data;
    pthread_setname_np(pthread_self(), "ulms-tenant");
    prctl(PR_SET_TIMERSLACK, 1);
    capture_relax();
    while (!is_over(t)) {
        bool barred = (t->released || t->to.socket < 0) && connection_is_barred();
        if (t->to.socket >= 0 && barred)
            hang_up(t);
        if (t->to.socket >= 0 && !connection_lives(&t->to))
            lose(t);
        if (!barred)
            stats_show();
        if (t->to.socket < 0 && (barred || !join(t))) {
            sleep_until_over(t, barred ? RELEASED_NS : AGAIN_NS);
            continue;
        }
        uint64_t most = serve(t);
        if (most > 0)
            share_page_wait(t->to.page, t->sequence, most);
        else
            sched_yield();
    }
    return NULL;
}

/* As the process ends nobody would open a turn that is closed now. */
void tenant_join(int device) {
    tenant_signals_open();
    struct tenant *t = stops() ? NULL : calloc(1, sizeof *t);
    if (!t)
        return;
    *t = (struct tenant){.device = device, .to = {.socket = -1}};
    if (join(t))
        serve(t);
    else if (!t->to.refused)
        log_warn("ULMS_SHARE=%s: no broker answers, the GPU is not shared yet (pump share start)",
                 ulms_options.share.name);
    if (background_start(&t->thread, run, t) != 0) {
        log_error("no thread for ULMS_SHARE: the GPU is not shared");
        leave(t);
        free(t);
        return;
    }
    tenants[device] = t;
}

void tenant_wake(int device) {
    struct tenant *t = tenants[device];
    const struct share_page *page = t ? __atomic_load_n(&t->to.page, __ATOMIC_RELAXED) : NULL;
    if (page)
        share_page_wake(page); /* where that was unmapped just now nobody is woken */
}

uint32_t tenants_asked(void) {
    return __atomic_load_n(&asked, __ATOMIC_RELAXED);
}

static bool is_connected(const struct tenant *t) {
    return t && __atomic_load_n(&t->to.page, __ATOMIC_RELAXED);
}

bool tenants_suspend(bool suspended) {
    uint32_t before = tenants_asked();
    while (!__atomic_compare_exchange_n(&asked, &before, ((before | 1) + 1) | suspended, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
    bool any = false;
    for (int i = 0; i < DEVICE_MAX; i++) {
        any = any || is_connected(tenants[i]);
        tenant_wake(i);
    }
    return any;
}

bool tenants_are_away(void) {
    bool any = false, all = true;
    for (int i = 0; i < DEVICE_MAX; i++)
        if (is_connected(tenants[i])) {
            any = true;
            all = all && __atomic_load_n(&tenants[i]->heard, __ATOMIC_ACQUIRE) == tenants_asked() &&
                  __atomic_load_n(&tenants[i]->away, __ATOMIC_RELAXED) > 0;
        }
    return any && all;
}

bool tenant_shares(int device) {
    const struct tenant *t = device >= 0 && device < DEVICE_MAX ? tenants[device] : NULL;
    return t && (__atomic_load_n(&t->together, __ATOMIC_RELAXED) || !__atomic_load_n(&t->to.page, __ATOMIC_RELAXED));
}

/* Before the driver ends. A thread that the driver keeps is left to the end of the process. */
void tenants_stop(void) {
    uint64_t until = clock_ns() + END_NS;
    lock_take(&end);
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    condition_tell_all(&ends);
    lock_drop(&end);
    for (int i = 0; i < DEVICE_MAX; i++) {
        if (!tenants[i] || tenants[i]->joined) /* the end comes more than once */
            continue;
        tenant_wake(i);
        tenants[i]->joined = true;
        while (!background_join(tenants[i]->thread, until) && !is_over(tenants[i]))
            until = clock_ns() + END_NS;
        tenant_backend()->close(i, false);
        tenant_backend()->bound(i, 0);
    }
}

void tenants_fork_child(void) {
    for (int i = 0; i < DEVICE_MAX; i++)
        if (tenants[i])
            connection_close(&tenants[i]->to);
}
