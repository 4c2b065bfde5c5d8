#include "tenant/state.h"

#include "base/capacity.h"
#include "base/larger.h"

/* So long after a change its budget may change again: rounds of turns are shorter. */
#define SETTLES_NS 10000000000ull
enum { TELL_NS = 250000000 }; /* turns that are shorter are not all told */

static void grant(const struct tenant *t, uint64_t bytes) {
    capacity_lease(t->device, bytes > 0 ? bytes : 1); /* 0 would be all */
    session.backend->granted(t->device);
}

static void begin_draining(struct tenant *t) {
    t->drains = true;
    t->drains_ns = clock_ns();
}

/* Its memory is away, or comes back: others give it up, which may take them long. */
static bool returns(const struct tenant *t) {
    return t->lease.suspended || (t->resumed_ns && clock_ns() < t->resumed_ns + SETTLES_NS);
}

void tenant_close(struct tenant *t, bool closed) {
    if (t->closed == closed)
        return;
    t->closed = closed;
    t->drains = false;
    if (closed)
        begin_draining(t);
    tenant_backend()->close(t->device, closed);
}

void tenant_unsuspend(struct tenant *t) {
    tenant_unfile(t);
    if (returns(t) && t->budget) {
        grant(t, t->budget);
    } else if (t->lease.suspended) {
        capacity_grant(t->device, 0);
        session.backend->granted(t->device);
    }
    t->lease.suspended = 0;
}

static void tell_suspended(const struct tenant *t) {
    if (t->lease.suspended == POLICY_PARKED)
        log_info("device %d: idle for long: its memory leaves until the next operation", t->device);
    else if (t->lease.suspended)
        log_info("device %d: suspended: its memory leaves, and operations wait for `pump resume`", t->device);
    else
        log_info("device %d: resumed", t->device);
}

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
    bool pins = lease.pin != t->lease.pin;
    bool suspends = lease.suspended != t->lease.suspended;
    t->sequence = sequence;
    t->unacknowledged = t->unacknowledged || lease.serial != t->lease.serial;
    if (lease.serial != t->lease.serial || !t->read_ns)
        t->read_ns = clock_ns();
    if (t->closed && !t->drains && lease.serial != t->lease.serial && !lease.may_issue)
        begin_draining(t);
    t->resumed_ns = suspends && !lease.suspended ? t->read_ns : t->resumed_ns;
    t->lease = lease;
    tenant_file(t); /* before it gets memory again */
    t->budget = returns(t) ? larger(t->budget, lease.budget) : lease.budget;
    TENANT_TELL("device %d: lease %llu: %llu MiB, %s", t->device, (unsigned long long)lease.serial,
                (unsigned long long)(lease.budget >> 20), lease.may_issue ? "a turn" : "no turn");
    tenant_backend()->bound(t->device, lease.in_flight_ns == UINT64_MAX ? 0 : lease.in_flight_ns);
    if (suspends)
        tell_suspended(t);
    else if (t->closed == (lease.may_issue > 0))
        tell_turn(t, !t->closed);
    if (lease.suspended)
        tenant_close(t, true); /* before its memory leaves */
    if (pins)
        tenant_backend()->pin(t->device, lease.pin);
    if (other_budget)
        t->budget_ns = t->read_ns;
    if (other_budget || pins)
        grant(t, lease.budget);
    tenant_close(t, !lease.may_issue);
}

/* What was granted is never more than the group may have: a change of that may change what it comes to. */
static void read_quota(const struct tenant *t) {
    const struct share_quota *q = &t->to.page->quota;
    uint64_t memory = __atomic_load_n(&q->memory, __ATOMIC_RELAXED), before = capacity_of(t->device);
    uint64_t host = __atomic_load_n(&q->host, __ATOMIC_RELAXED), most = session.managed_limit;
    capacity_group(t->device, memory, __atomic_load_n(&q->others, __ATOMIC_RELAXED));
    ledger_limit(session.ledger, t->device, capacity_of(t->device));
    /* what is pinned goes to the file beyond `most` only */
    ledger_limit_managed(session.ledger, host < most ? larger(host, 1) : most + session.file_limit);
    if (capacity_of(t->device) != before)
        session.backend->granted(t->device);
}

/* Others that shrink leave it more, soon. */
static void settle(struct tenant *t) {
    __atomic_store_n(&t->together, !tenant_is_alone(t), __ATOMIC_RELAXED);
    bool settles = t->together && clock_ns() < t->budget_ns + SETTLES_NS;
    if (settles != t->settles)
        tenant_backend()->settles(t->device, settles);
    t->settles = settles;
}

static void read_elected(struct tenant *t) {
    bool elected = __atomic_load_n(&t->to.page->elected, __ATOMIC_RELAXED);
    if (elected && !t->elected)
        t->elected_ns = clock_ns();
    t->elected = elected;
}

void tenant_read(struct tenant *t) {
    read_lease(t);
    read_elected(t);
    settle(t);
    read_quota(t);
}
