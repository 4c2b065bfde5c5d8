/* Who has how much of the GPU's time: EEVDF over groups, token buckets for limits, priorities. */
#include "broker/policy/state.h"

#define WINDOW_NS MS(10000) /* so far back overuse of a limit counts */
#define SLACK_NS  MS(10)    /* that a group that co-runs may have more than its share */
enum { WEIGHT_LEAST = 10 };

/* --- use --- */

static bool uses(const struct policy *p, const struct tenant *t) {
    return (t->open || t->draining) && (has_work(t) || (t == p->holder && p->contended));
}

static int64_t bucket_ns(const struct policy *p, const struct group *g) {
    uint64_t depth = BUCKET_NS;
    for (struct tenant *t = NULL; in_turns(p) && (t = tenant_after(p, t));)
        if (t->group == g && t->taker)
            depth = most(depth, turn_length(p, t));
    return (int64_t)depth;
}

static void tokens_add(const struct policy *p, struct group *g, uint64_t ns) {
    int64_t depth = bucket_ns(p, g);
    int64_t more = (int64_t)scaled(least(ns, 2 * WINDOW_NS), g->set.limit, THOUSAND);
    g->tokens = g->tokens + more < depth ? g->tokens + more : depth;
}

static void tokens_use(struct group *g, uint64_t ns) {
    int64_t left = g->tokens - (int64_t)least(ns, 2 * WINDOW_NS);
    g->tokens = left > -(int64_t)WINDOW_NS ? left : -(int64_t)WINDOW_NS;
}

void share_charge(struct policy *p, uint64_t now) {
    uint64_t span = now - p->now, users = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        users += uses(p, t);
    for (struct group *g = NULL; (g = group_after(p, g));)
        tokens_add(p, g, span);
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        if (!uses(p, t)) {
            t->sums.waited_ns += is_busy(t) ? span : 0;
            continue;
        }
        uint64_t part = span / users;
        t->sums.hold_ns += span;
        t->charged_ns += part;
        t->spell_ns += part;
        t->pass += part;
        t->group->virtual += virtually(t->group, part);
        tokens_use(t->group, part);
        p->charged_ns += part;
    }
}

/* --- who may --- */

static bool within_limit(const struct policy *p, const struct tenant *t) {
    return !t->group->spent || (!t->group->set.hard && !p->unspent);
}

bool share_permits(const struct policy *p, const struct tenant *t, bool rationed) {
    return !t->suspended && within_limit(p, t) && t->group->set.priority >= p->top && !(rationed && t->group->ahead);
}

bool share_wants(const struct policy *p, const struct tenant *t) {
    return is_busy(t) && share_permits(p, t, false);
}

static void judge_weights(struct policy *p) {
    uint32_t requested = 0, others = 0;
    for (struct group *g = NULL; (g = group_after(p, g));) {
        requested += g->tenants ? g->set.request : 0;
        others += g->tenants && !g->set.request;
    }
    uint32_t left = requested < THOUSAND && others ? (THOUSAND - requested) / others : 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->weight = g->set.request ? g->set.request : left > WEIGHT_LEAST ? left : WEIGHT_LEAST;
}

static void judge_limits(struct policy *p) {
    for (struct group *g = NULL; (g = group_after(p, g));) {
        if (!g->set.limit || g->tokens >= bucket_ns(p, g) / 2)
            g->spent = false;
        else if (g->tokens <= 0)
            g->spent = true;
    }
    p->unspent = false;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        p->unspent |= is_busy(t) && !t->group->spent;
    p->top = INT32_MIN;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (is_busy(t) && within_limit(p, t) && t->group->set.priority > p->top)
            p->top = t->group->set.priority;
}

/* The mean of the groups' virtual times by weight; old: of those that were candidates before, too. */
static uint64_t mean(const struct policy *p, bool old) {
    uint64_t first = NEVER, weights = 0;
    unsigned __int128 sum = 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        if (g->candidate && (!old || g->was_candidate))
            first = least(first, g->virtual);
    for (struct group *g = NULL; (g = group_after(p, g));)
        if (g->candidate && (!old || g->was_candidate)) {
            sum += (unsigned __int128)g->weight * (g->virtual - first);
            weights += g->weight;
        }
    return weights ? first + (uint64_t)(sum / weights) : p->virtual;
}

/* Who begins to want has no claim to what it did not use before. */
static void judge_virtual(struct policy *p) {
    for (struct group *g = NULL; (g = group_after(p, g));) {
        g->was_candidate = g->candidate;
        g->candidate = p->holder && p->holder->group == g;
    }
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        t->group->candidate |= share_wants(p, t);
    uint64_t before = mean(p, true);
    for (struct group *g = NULL; (g = group_after(p, g));)
        if (g->candidate && !g->was_candidate)
            g->virtual = most(g->virtual, before);
    p->virtual = mean(p, false);
    for (struct group *g = NULL; (g = group_after(p, g));) {
        if (!g->candidate || g->virtual <= p->virtual)
            g->ahead = false;
        else if (g->virtual > p->virtual + virtually(g, SLACK_NS))
            g->ahead = true;
        if (g->ahead)
            p->ahead_ns = p->now;
    }
}

/* --- whose turn --- */

bool share_eligible(const struct policy *p, const struct tenant *t) {
    return t->start <= p->virtual;
}

bool share_before(const struct policy *p, const struct tenant *a, const struct tenant *b) {
    if (share_eligible(p, a) != share_eligible(p, b))
        return share_eligible(p, a);
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline;
    if (a->group != b->group)
        return a->group->id < b->group->id;
    return a->id < b->id;
}

static bool contends(const struct policy *p, const struct tenant *t) {
    return turn_takes(p, t) && share_wants(p, t);
}

/* Tenants of a group one after the other, who used least first. */
static void judge_deadlines(struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        t->deadline = NEVER;
        if (!contends(p, t))
            continue;
        uint64_t earlier = 0;
        for (struct tenant *other = NULL; (other = tenant_after(p, other));)
            if (other != t && other->group == t->group && contends(p, other) &&
                (other->pass < t->pass || (other->pass == t->pass && other->id < t->id)))
                earlier += turn_request(p, other);
        t->start = t->group->virtual + virtually(t->group, earlier);
        t->deadline = t->start + virtually(t->group, turn_request(p, t));
    }
}

void share_judge(struct policy *p) {
    judge_weights(p);
    judge_limits(p);
    judge_virtual(p);
    judge_deadlines(p);
}

/* While shares or limits bind they are looked at often. */
uint64_t share_next(const struct policy *p) {
    uint64_t candidates = 0;
    bool binds = false;
    for (struct group *g = NULL; (g = group_after(p, g));) {
        candidates += g->candidate;
        binds |= g->spent || g->ahead || (g->candidate && g->set.limit);
    }
    return binds || candidates > 1 ? p->now + POLL_NS : NEVER;
}
