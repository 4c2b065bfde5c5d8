/* Events in, leases out. */
#include <stdlib.h>
#include <string.h>

#include "broker/policy/state.h"

struct policy *policy_new(uint64_t capacity, uint64_t rate) {
    struct policy *p = rate > 0 ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    p->capacity = least(capacity, BYTES_MOST);
    p->rate = rate;
    p->fits_since = 0;
    p->ahead_ns = p->ends = NEVER;
    return p;
}

void policy_free(struct policy *p) {
    free(p);
}

/* --- leases --- */

static bool somebody_waits(const struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (is_busy(t) && !t->open)
            return true;
    return false;
}

static void lease_renew(const struct policy *p, struct tenant *t, bool bounded) {
    struct policy_lease now = t->lease;
    bool closed = t->lease.may_issue && !t->open;
    now.budget = t->budget;
    now.fill_bytes = t->fill;
    now.may_issue = t->open;
    now.in_flight_ns = bounded || t->group->set.limit > 0 ? IN_FLIGHT_NS : NEVER;
    now.turn_ends_ns = t == p->holder ? p->ends : NEVER;
    now.suspended = t->suspended;
    now.pin = t->group->set.pin;
    if (now.serial > 0 && memcmp(&now, &t->lease, sizeof(now)) == 0)
        return;
    now.serial++;
    if (now.serial == 1 || now.budget != t->lease.budget)
        t->budget_serial = now.serial;
    if (closed)
        t->gate_serial = now.serial;
    t->lease = now;
    t->changed = true;
}

int policy_next_lease(struct policy *p, struct policy_lease *out) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->changed) {
            t->changed = false;
            *out = t->lease;
            return 1;
        }
    return 0;
}

/* --- events --- */

static void charge(struct policy *p, uint64_t now) {
    if (now <= p->now)
        return;
    share_charge(p, now);
    p->now = now;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        if (is_busy(t))
            t->wanted_ns = now;
        if (t->works)
            t->idle_ns = now;
    }
}

/* Every event ends with it. */
static int judged(struct policy *p, int result) {
    if (result != POLICY_OK)
        return result;
    p->reserved = bytes_reserved(p, NULL);
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->reserved = bytes_reserved(p, g);
    park_judge(p);
    crowd_judge(p);
    trial_judge(p);
    share_judge(p);
    turn_judge(p);
    budget_judge(p);
    bool bounded = somebody_waits(p) || trial_runs(p) || (p->ahead_ns != NEVER && p->now - p->ahead_ns < AWAY_NS);
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        lease_renew(p, t, bounded);
    return POLICY_OK;
}

int policy_tick(struct policy *p, uint64_t now) {
    charge(p, now);
    return judged(p, POLICY_OK);
}

int policy_capacity(struct policy *p, uint64_t now, uint64_t bytes) {
    charge(p, now);
    p->capacity = least(bytes, BYTES_MOST);
    return judged(p, POLICY_OK);
}

int policy_turn(struct policy *p, uint64_t now, uint64_t ns) {
    charge(p, now);
    p->fixed_turn = least(ns, TURN_MOST_NS);
    return judged(p, POLICY_OK);
}

int policy_resident(struct policy *p, uint64_t now, uint32_t tenants) {
    charge(p, now);
    p->resident = tenants;
    return judged(p, POLICY_OK);
}

int policy_group(struct policy *p, uint64_t now, uint32_t id, const struct policy_group *group) {
    charge(p, now);
    return judged(p, group_put(p, id, group));
}

int policy_group_gone(struct policy *p, uint64_t now, uint32_t id) {
    charge(p, now);
    return judged(p, group_take(p, id));
}

int policy_join(struct policy *p, uint64_t now, uint32_t tenant, uint32_t group, uint64_t floor, uint64_t held) {
    charge(p, now);
    return judged(p, tenant_put(p, tenant, group_find(p, group), floor, held));
}

int policy_leave(struct policy *p, uint64_t now, uint32_t tenant) {
    charge(p, now);
    struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    tenant_take(p, t);
    return judged(p, POLICY_OK);
}

/* Of the busy ones of its group, one of which it is or was until now. */
static void note_least_pass(const struct policy *p, const struct tenant *t, uint64_t pass) {
    for (struct tenant *other = NULL; (other = tenant_after(p, other));)
        if (other != t && other->group == t->group && is_busy(other))
            pass = least(pass, other->pass);
    t->group->pass = pass == NEVER ? t->group->pass : most(t->group->pass, pass);
}

/* What a tenant is behind the others of its group counts only while it wants. */
static void tenant_wakes(struct policy *p, struct tenant *t) {
    note_least_pass(p, t, NEVER);
    t->pass = most(t->pass, t->group->pass);
    if (t->wanted_ns == NEVER)
        return;
    /* a long one says little of the next */
    uint64_t rest = least(p->now - t->wanted_ns, turn_pause(p, t) * 3 / 2);
    t->rest_ns = t->rest_ns ? (t->rest_ns + rest) / 2 : rest;
}

static void tenant_rests(struct policy *p, struct tenant *t) {
    note_least_pass(p, t, t->pass);
    t->wanted_ns = p->now;
    t->burst_ns = most(1, t->burst_ns ? (t->burst_ns + t->spell_ns) / 2 : t->spell_ns);
    t->spell_ns = 0;
}

int policy_report(struct policy *p, uint64_t now, uint32_t tenant, const struct policy_report *report) {
    charge(p, now);
    struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    bool was_busy = is_busy(t);
    uint64_t refilled = report->refilled - least(report->refilled, t->told.refilled);
    bool issued = report->operations != t->told.operations;
    t->told = *report;
    t->told.need = least(report->need, BYTES_MOST);
    t->charged_told = t->charged_ns;
    t->works = has_work(t) && (t->works || issued);
    if (issued)
        t->idle_ns = p->now;
    if (t->suspended == POLICY_PARKED && t->told.wants)
        t->suspended = 0;
    p->thrash.refilled = least(p->thrash.refilled + least(refilled, BYTES_MOST), BYTES_MOST);
    if (is_busy(t) && !was_busy)
        tenant_wakes(p, t);
    if (!is_busy(t) && was_busy)
        tenant_rests(p, t);
    return judged(p, POLICY_OK);
}

int policy_acknowledge(struct policy *p, uint64_t now, uint32_t tenant, uint64_t serial, uint64_t held) {
    charge(p, now);
    struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    if (serial > t->lease.serial)
        return POLICY_WRONG;
    if (serial >= t->budget_serial)
        t->reserved = most(t->budget, least(held, t->reserved));
    return judged(p, POLICY_OK);
}

int policy_drained(struct policy *p, uint64_t now, uint32_t tenant, uint64_t serial) {
    charge(p, now);
    struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    if (serial > t->lease.serial)
        return POLICY_WRONG;
    if (t->draining && serial >= t->gate_serial)
        turn_drained(t);
    return judged(p, POLICY_OK);
}

/* What it needs while it is suspended, and for how long, says nothing of its pauses. */
static void suspend(struct policy *p, struct tenant *t, uint32_t suspended) {
    bool was_busy = is_busy(t);
    t->suspended = suspended;
    t->idle_ns = p->now;
    p->holder = p->holder == t ? NULL : p->holder;
    if (was_busy)
        tenant_rests(p, t);
    if (!suspended)
        t->wanted_ns = NEVER;
    if (is_busy(t))
        tenant_wakes(p, t);
}

int policy_suspend(struct policy *p, uint64_t now, uint32_t tenant, uint32_t suspended) {
    charge(p, now);
    struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    if (suspended > 1)
        return POLICY_WRONG;
    if (t->suspended != suspended)
        suspend(p, t, suspended);
    return judged(p, POLICY_OK);
}

/* --- what is so now --- */

int policy_tenant(const struct policy *p, uint32_t tenant, struct policy_tenant *out) {
    const struct tenant *t = tenant_find(p, tenant);
    if (!t)
        return POLICY_UNKNOWN;
    *out = t->sums;
    out->budget = t->budget;
    out->reserved = t->reserved;
    out->charged_ns = t->charged_ns;
    out->switch_ns = t->switch_ns;
    out->draining = t->draining;
    return POLICY_OK;
}

void policy_state(const struct policy *p, struct policy_state *out) {
    *out = p->state;
    out->crowded = p->crowded;
    out->taking = in_turns(p);
    out->exclusive = p->exclusive;
    out->holder = p->holder ? p->holder->id : 0;
    out->elect = p->elect ? p->elect->id : 0;
}

uint64_t policy_next_ns(const struct policy *p) {
    uint64_t next = least(crowd_next(p), trial_next(p));
    next = least(next, least(share_next(p), turn_next(p)));
    return least(next, least(budget_next(p), park_next(p)));
}
