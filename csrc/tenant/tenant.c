#define _GNU_SOURCE
#include "tenant/tenant.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "backend/backend.h"
#include "base/background.h"
#include "base/capacity.h"
#include "base/larger.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/capture.h"
#include "driver/session.h"
#include "observe/stats.h"
#include "tenant/connection.h"

/* How long its thread sleeps. */
enum {
    DRAINS_NS = 50000,     /* while the last operations of a turn run */
    SHRINKS_NS = 200000,   /* while it holds more than it may */
    HAS_TURN_NS = 1000000, /* while others want the device, too */
    WAITS_NS = 20000000,   /* without a turn */
    ALONE_NS = 500000000,  /* until it looks whether the broker lives */
    AGAIN_NS = 1000000000  /* until it looks for a broker again */
};
enum {
    LONG_NS = 5000000,
    END_NS = 1000000000
}; /* what drains for longer is looked at less often; the end waits so long */
#define SETTLES_NS                                                                                                     \
    10000000000ull            /* so long after a change its budget may change again: a round of turns is shorter       \
                               */
enum { TELL_NS = 250000000 }; /* turns that are shorter are not all told */
enum { ALONE_REPORT_NS = 900000000, REPORT_NS = 50000000, BOUND_REPORT_NS = 10000000, ACKNOWLEDGE_NS = 5000000 };

/* Contexts of tenants lie beside what they share: so much of the device is left to them. */
enum { OTHERS = 16 };
enum { NEED_PART = 16 };         /* a need that changed by less is no news */
#define LINK_RATE 45000000000ull /* bytes a second each way; the broker learns what a switch takes */

struct tenant {
    int device;
    pthread_t thread;
    bool joined;
    struct connection to;
    struct policy_lease lease; /* the latest that was read */
    uint32_t sequence;         /* of the page then */
    bool closed, drains;       /* the gate is closed; and it was not told yet that nothing runs */
    bool unacknowledged;
    bool together; /* others share the device. Atomic */
    bool settles;  /* its budget changed a moment ago */
    uint64_t budget_ns;
    uint64_t read_ns; /* when the lease was read */
    uint64_t acknowledged_ns, reported_ns;
    uint64_t operations; /* when it was reported last */
    bool wanted;
    uint64_t need, used, host; /* bytes: reported last */
    uint64_t held;             /* bytes: acknowledged last */
    uint64_t gate_ns;          /* when its gate opened or closed last */
    uint64_t told_ns;          /* when that was told last */
};

static struct tenant *tenants[DEVICE_MAX];
static bool stopping; /* atomic; told under `end` */
static struct lock end;
static struct condition ends;

static const struct backend_shares *shares(void) {
    return session.backend->shares;
}

/* Each turn tells: no call site falls silent. */
#define TELL(...)                                                                                                      \
    do {                                                                                                               \
        if (ulms_options.level >= LOG_DEBUG)                                                                           \
            log_line(LOG_DEBUG, NULL, __VA_ARGS__);                                                                    \
    } while (0)

/* The lease was read: microseconds. */
static unsigned long long since(const struct tenant *t) {
    return (clock_ns() - t->read_ns) / 1000;
}

static void grant(const struct tenant *t, uint64_t bytes) {
    capacity_lease(t->device, bytes > 0 ? bytes : 1); /* 0 would be all */
    session.backend->granted(t->device);
}

static void set_closed(struct tenant *t, bool closed) {
    if (t->closed == closed)
        return;
    t->closed = closed;
    t->drains = closed;
    shares()->close(t->device, closed);
}

static bool is_alone(const struct tenant *t) {
    return __atomic_load_n(&t->to.page->tenants, __ATOMIC_RELAXED) < 2;
}

/* --- what is said --- */

static bool say(struct tenant *t, struct share_message *m) {
    bool sent;
    return connection_send(&t->to, m, &sent) && sent;
}

/* Whether anything happened since the last report tells whether it issues: to ask the driver takes longer. */
static void report(struct tenant *t, const struct backend_load *load, bool idle) {
    uint64_t operations = stats_sum(COUNT_operations);
    bool issues = operations != t->operations;
    uint64_t used = ledger_used(session.ledger, t->device), host = ledger_managed(session.ledger);
    struct share_message m = {.kind = SHARE_REPORT,
                              .report = {.used = used,
                                         .host = host,
                                         .evicted = load->evicted,
                                         .policy = {.need = load->need,
                                                    .resident = load->held,
                                                    .operations = operations,
                                                    .refilled = load->refilled,
                                                    .stalled_ns = stats_sum(COUNT_held_ns),
                                                    .wants = load->wants || issues || !idle,
                                                    .in_flight = !idle,
                                                    .ready = 1,
                                                    .um = session.backend == &backend_um}}};
    if (!say(t, &m))
        return;
    t->reported_ns = clock_ns();
    t->operations = operations;
    t->need = load->need;
    t->used = used;
    t->host = host;
    t->wanted = m.report.policy.wants;
}

static bool need_changed(const struct tenant *t, const struct backend_load *load) {
    uint64_t apart = load->need > t->need ? load->need - t->need : t->need - load->need;
    bool other = t->host != ledger_managed(session.ledger) ||
                 (t->to.page->quota.memory && t->used != ledger_used(session.ledger, t->device));
    return apart > t->need / NEED_PART || (other && clock_ns() >= t->reported_ns + ACKNOWLEDGE_NS);
}

static void report_if_due(struct tenant *t) {
    struct backend_load load = shares()->load(t->device);
    uint64_t every = is_alone(t) ? ALONE_REPORT_NS : t->lease.in_flight_ns == UINT64_MAX ? REPORT_NS : BOUND_REPORT_NS;
    bool issues = stats_sum(COUNT_operations) != t->operations, begins = (load.wants || issues) && !t->wanted;
    bool due = begins || need_changed(t, &load) || clock_ns() >= t->reported_ns + every;
    bool quiet = t->wanted && !issues && !load.wants;
    if (due || quiet) {
        bool idle = shares()->idle(t->device);
        if (due || idle)
            report(t, &load, idle);
    }
}

/* What it holds is what the driver has not got back. */
static void acknowledge(struct tenant *t) {
    uint64_t held = shares()->load(t->device).held;
    struct share_message m = {.kind = SHARE_ACKNOWLEDGE, .acknowledge = {t->lease.serial, held}};
    bool fits = held <= t->lease.budget;
    if (!fits && (clock_ns() < t->acknowledged_ns + ACKNOWLEDGE_NS || held == t->held))
        return;
    if (say(t, &m)) {
        t->acknowledged_ns = clock_ns();
        t->held = held;
        t->unacknowledged = !fits;
        TELL("device %d: holds %llu MiB after %llu us", t->device, (unsigned long long)(held >> 20), since(t));
    }
}

static void tell_drained(struct tenant *t) {
    struct share_message m = {.kind = SHARE_DRAINED, .drained = {t->lease.serial}};
    if (!shares()->idle(t->device))
        return;
    struct backend_load load = shares()->load(t->device);
    report(t, &load, true);
    t->drains = !say(t, &m);
    TELL("device %d: drained after %llu us", t->device, since(t));
}

/* --- what is heard --- */

/* Its gate opens or closes now. */
static void tell_turn(struct tenant *t, bool closed) {
    uint64_t now = clock_ns(), ms = t->gate_ns ? (now - t->gate_ns) / 1000000 : 0;
    t->gate_ns = now;
    if (ulms_options.level < LOG_INFO || now < t->told_ns + TELL_NS)
        return;
    t->told_ns = now;
    log_line(LOG_INFO, NULL,
             closed ? "device %d: the turn ends after %llu ms, %llu MiB stay"
                    : "device %d: a turn after %llu ms, with %llu MiB",
             t->device, (unsigned long long)ms, (unsigned long long)(t->lease.budget >> 20));
}

static void read_lease(struct tenant *t) {
    struct policy_lease lease;
    uint32_t sequence = share_page_read(t->to.page, &lease);
    if (!sequence || sequence == t->sequence || lease.serial == 0) /* 0: there was none to read */
        return;
    bool other_budget = lease.budget != t->lease.budget || t->lease.serial == 0;
    t->sequence = sequence;
    t->unacknowledged = t->unacknowledged || lease.serial != t->lease.serial;
    t->drains = t->drains || (t->closed && lease.serial != t->lease.serial && !lease.may_issue);
    t->lease = lease;
    t->read_ns = clock_ns();
    TELL("device %d: lease %llu: %llu MiB, %s", t->device, (unsigned long long)lease.serial,
         (unsigned long long)(lease.budget >> 20), lease.may_issue ? "a turn" : "no turn");
    shares()->bound(t->device, lease.in_flight_ns == UINT64_MAX ? 0 : lease.in_flight_ns);
    if (other_budget) {
        t->budget_ns = t->read_ns;
        grant(t, lease.budget);
    }
    if (t->closed == (lease.may_issue > 0))
        tell_turn(t, !t->closed);
    set_closed(t, !lease.may_issue);
}

/* What was granted is never more than the group may have: a change of that may change what it comes to. */
static void read_quota(const struct tenant *t) {
    const struct share_quota *q = &t->to.page->quota;
    uint64_t memory = __atomic_load_n(&q->memory, __ATOMIC_RELAXED), before = capacity_of(t->device);
    uint64_t host = __atomic_load_n(&q->host, __ATOMIC_RELAXED), most = session.managed_limit;
    capacity_group(t->device, memory, __atomic_load_n(&q->others, __ATOMIC_RELAXED));
    ledger_limit(session.ledger, t->device, capacity_of(t->device));
    ledger_limit_managed(session.ledger, smaller(larger(host, 1), most));
    if (capacity_of(t->device) != before)
        session.backend->granted(t->device);
}

/* Others that shrink leave it more, soon. */
static void settle(struct tenant *t) {
    __atomic_store_n(&t->together, !is_alone(t), __ATOMIC_RELAXED);
    bool settles = t->together && clock_ns() < t->budget_ns + SETTLES_NS;
    if (settles != t->settles)
        shares()->settles(t->device, settles);
    t->settles = settles;
}

static uint64_t serve(struct tenant *t) {
    read_lease(t);
    settle(t);
    read_quota(t);
    if (t->drains)
        tell_drained(t);
    if (t->unacknowledged)
        acknowledge(t);
    report_if_due(t);
    uint64_t age = clock_ns() - t->read_ns;
    return t->drains                             ? (age < LONG_NS ? DRAINS_NS : HAS_TURN_NS)
           : t->unacknowledged && age < AGAIN_NS ? SHRINKS_NS
           : is_alone(t)                         ? ALONE_NS
           : t->closed                           ? WAITS_NS
                                                 : HAS_TURN_NS;
}

/* --- its life --- */

static struct share_message hello(const struct tenant *t) {
    const struct share_option *o = &ulms_options.share;
    struct share_message m = {.hello = {.rate = LINK_RATE,
                                        .held = shares()->load(t->device).held,
                                        .sets = o->settings.said != 0,
                                        .settings = o->settings.to}};
    size_t total = 0;
    CUuuid uuid = {{0}};
    snprintf(m.hello.group, sizeof m.hello.group, "%s", o->name);
    REAL(cuDeviceTotalMem_v2, 0)(&total, t->device);
    REAL(cuDeviceGetUuid_v2, 0)(&uuid, t->device);
    memcpy(m.hello.gpu, uuid.bytes, sizeof m.hello.gpu);
    m.hello.capacity = total - total / OTHERS;
    return m;
}

static bool join(struct tenant *t) {
    struct share_message m = hello(t);
    if (!connection_open(&t->to, &m))
        return false;
    t->lease = (struct policy_lease){.serial = 0};
    t->sequence = 0;
    t->wanted = false;
    return true;
}

/* It runs on with the budget that it had, and nothing else binds it. */
static void leave(struct tenant *t) {
    if (t->to.page)
        capacity_group(t->device, __atomic_load_n(&t->to.page->quota.memory, __ATOMIC_RELAXED), 0);
    connection_close(&t->to);
    set_closed(t, false);
    __atomic_store_n(&t->together, false, __ATOMIC_RELAXED);
    shares()->settles(t->device, false);
    shares()->bound(t->device, 0);
    t->drains = t->unacknowledged = t->settles = false;
}

static void lose(struct tenant *t) {
    leave(t);
    log_warn("the broker is gone: the program runs as if it were alone, with the memory that it had");
}

static bool stops(void) {
    return __atomic_load_n(&stopping, __ATOMIC_ACQUIRE);
}

/* While there is no broker. */
static void sleep_until_stop(void) {
    uint64_t until_ns = clock_ns() + AGAIN_NS;
    lock_take(&end);
    while (!stops() && clock_ns() < until_ns)
        condition_wait(&ends, &end, until_ns);
    lock_drop(&end);
}

static void *run(void *data) {
    struct tenant *t = data;
    pthread_setname_np(pthread_self(), "ulms-tenant");
    prctl(PR_SET_TIMERSLACK, 1);
    capture_relax();
    while (!stops()) {
        if (t->to.socket >= 0 && !connection_lives(&t->to))
            lose(t);
        if (t->to.socket < 0 && !join(t)) {
            sleep_until_stop();
            continue;
        }
        uint64_t most = serve(t);
        share_page_wait(t->to.page, t->sequence, most);
    }
    return NULL;
}

void tenant_join(int device) {
    struct tenant *t = calloc(1, sizeof *t);
    if (!t)
        return;
    *t = (struct tenant){.device = device, .to = {.socket = -1}};
    if (join(t))
        serve(t);
    else
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

bool tenant_shares(int device) {
    const struct tenant *t = device >= 0 && device < DEVICE_MAX ? tenants[device] : NULL;
    return t && (__atomic_load_n(&t->together, __ATOMIC_RELAXED) || !__atomic_load_n(&t->to.page, __ATOMIC_RELAXED));
}

/* Before the driver ends. A thread that the driver keeps is left to the end of the process. */
void tenants_stop(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_NS / 1000000000;
    lock_take(&end);
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    condition_tell_all(&ends);
    lock_drop(&end);
    for (int i = 0; i < DEVICE_MAX; i++) {
        if (!tenants[i] || tenants[i]->joined) /* the end comes more than once */
            continue;
        tenant_wake(i);
        tenants[i]->joined = true;
        pthread_timedjoin_np(tenants[i]->thread, NULL, &until);
        shares()->close(i, false);
        shares()->bound(i, 0);
    }
}

void tenants_fork_child(void) {
    for (int i = 0; i < DEVICE_MAX; i++)
        if (tenants[i])
            connection_close(&tenants[i]->to);
}
