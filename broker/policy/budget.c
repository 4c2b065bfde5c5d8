/* Who has how many bytes. Budgets shrink at once; they grow by what is not reserved, which an acknowledgement frees. */
#include <stdlib.h>

#include "broker/policy/state.h"

enum { STAYS, HOLDS, WAITS, PAUSES, AWAY }; /* who is given bytes first */

static int rank(const struct policy *p, const struct tenant *t) {
    if (!is_awake(p, t))
        return AWAY;
    if (!in_turns(p) || !t->taker)
        return STAYS;
    if (t == p->holder || t == p->elect)
        return HOLDS;
    return t->deadline != NEVER ? WAITS : PAUSES;
}

/* The one whose next use is nearer. */
static bool before(const struct policy *p, const struct tenant *a, const struct tenant *b) {
    int of_a = rank(p, a), of_b = rank(p, b);
    if (of_a != of_b)
        return of_a < of_b;
    if (of_a == STAYS && a->told.need != b->told.need)
        return a->told.need < b->told.need;
    if (of_a == WAITS)
        return share_before(p, a, b);
    if (of_a > WAITS && a->wanted_ns != b->wanted_ns) /* NEVER + 1 is 0 */
        return a->wanted_ns + 1 > b->wanted_ns + 1;
    return a->id < b->id;
}

static void judge_order(struct policy *p) {
    size_t n = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        size_t i = n++;
        for (; i > 0 && before(p, t, p->order[i - 1]); i--)
            p->order[i] = p->order[i - 1];
        p->order[i] = t;
    }
    p->ordered = n;
}

/* --- targets --- */

static void give(struct policy *p, struct tenant *t, uint64_t bytes) {
    uint64_t given = t->suspended ? 0 : least(least(bytes, p->room), t->group->room);
    t->target += given;
    p->room -= given;
    t->group->room -= given;
}

static uint64_t lacks(const struct tenant *t) {
    return t->told.need - least(t->told.need, t->target);
}

/* Who is to get an equal part of something. */
static uint64_t count(struct policy *p, bool (*gets)(const struct policy *p, const struct tenant *t)) {
    uint64_t all = 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->sharers = 0;
    for (size_t i = 0; i < p->ordered; i++)
        if (gets(p, p->order[i])) {
            p->order[i]->group->sharers++;
            all++;
        }
    return all;
}

static bool stays(const struct policy *p, const struct tenant *t) {
    return rank(p, t) == STAYS;
}

static bool is_anybody(const struct policy *p, const struct tenant *t) {
    (void)p;
    return !t->suspended;
}

/* Small needs in full, and what is left in equal parts. */
static void give_needs(struct policy *p) {
    uint64_t sharers = count(p, stays);
    for (size_t i = 0; i < p->ordered; i++) {
        struct tenant *t = p->order[i];
        uint64_t part = NEVER;
        if (stays(p, t)) {
            part = least(p->room / sharers--, t->group->room / t->group->sharers--);
        }
        give(p, t, least(lacks(t), part));
    }
}

static void give_rest(struct policy *p) {
    bool (*gets)(const struct policy *, const struct tenant *) = is_awake;
    uint64_t sharers = count(p, gets);
    if (!sharers)
        sharers = count(p, gets = is_anybody);
    uint64_t room = p->room;
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->part = g->sharers ? least(room / sharers, g->room / g->sharers) : 0;
    for (size_t i = 0; i < p->ordered; i++)
        if (gets(p, p->order[i]))
            give(p, p->order[i], p->order[i]->group->part);
}

static void judge_targets(struct policy *p) {
    p->room = p->capacity;
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->room = g->set.memory ? g->set.memory : NEVER;
    for (size_t i = 0; i < p->ordered; i++) {
        p->order[i]->target = 0;
        give(p, p->order[i], least(p->order[i]->floor, p->order[i]->told.need));
    }
    give_needs(p);
    give_rest(p);
}

/* --- budgets --- */

static void shrink(struct policy *p, struct tenant *t) {
    t->budget = least(t->budget, t->target);
    if (t->reserved == t->budget)
        t->shrinks_ns = NEVER;
    else if (t->shrinks_ns == NEVER)
        t->shrinks_ns = p->now;
}

/* The driver would evict managed pages that are about to leave, for what another maps. */
static bool um_shrinks(const struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->told.um && t->shrinks_ns != NEVER && p->now - t->shrinks_ns < PATIENCE_NS)
            return true;
    return false;
}

static uint64_t unreserved(const struct policy *p, const struct group *g) {
    uint64_t room = g ? g->set.memory : p->capacity;
    return room - least(room, bytes_reserved(p, g));
}

static void grow(struct policy *p, struct tenant *t, bool waits) {
    uint64_t more = unreserved(p, NULL);
    if (t->group->set.memory)
        more = least(more, unreserved(p, t->group));
    if (waits && !t->told.um)
        more = 0;
    t->budget = least(t->target, t->reserved + more);
    t->reserved = most(t->reserved, t->budget);
    if (t->reserved == t->budget)
        t->shrinks_ns = NEVER;
}

/* --- what is filled without a turn --- */

/* Of those that wait, the first whose pages are not all there, so that the link serves one. */
static void judge_fill(struct policy *p) {
    bool taken = false;
    for (size_t i = 0; i < p->ordered; i++) {
        struct tenant *t = p->order[i];
        bool waits = rank(p, t) == HOLDS || rank(p, t) == WAITS;
        t->fill = t->open || rank(p, t) == STAYS || (waits && !taken) ? t->budget : 0;
        taken |= waits && !t->open && t->told.resident < least(t->told.need, t->target);
    }
}

void budget_judge(struct policy *p) {
    judge_order(p);
    judge_targets(p);
    for (size_t i = 0; i < p->ordered; i++)
        shrink(p, p->order[i]);
    bool waits = um_shrinks(p);
    for (size_t i = 0; i < p->ordered; i++)
        grow(p, p->order[i], waits);
    judge_fill(p);
}

uint64_t budget_next(const struct policy *p) {
    uint64_t next = NEVER;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->told.um && t->shrinks_ns != NEVER && t->shrinks_ns + PATIENCE_NS > p->now)
            next = least(next, t->shrinks_ns + PATIENCE_NS);
    return next;
}
