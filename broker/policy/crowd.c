/* Whose needs fit, and whether those that do not take turns. */
#include "broker/policy/state.h"

#define LOOK_NS MS(500)   /* so long refills are summed up */
#define CALM_NS MS(10000) /* turns are over after so long without a crowd */
enum {
    SMALL = 8,          /* a tenant that needs so small a part stays resident */
    SMALL_TOGETHER = 4, /* as long as these need no more than such a part */
    HOT = 15,           /* per cent of the link's time that refills take */
    LOOKS = 4,          /* in a row */
    FELL = 8            /* turns are over when the sum of needs fell by such a part */
};

static bool before(const struct tenant *a, const struct tenant *b) {
    return a->told.need < b->told.need || (a->told.need == b->told.need && a->id < b->id);
}

/* room: what the tenant shares with those of group g (NULL: with all). */
static bool is_small(const struct policy *p, const struct tenant *t, const struct group *g, uint64_t room) {
    uint64_t together = t->told.need;
    for (struct tenant *other = NULL; (other = tenant_after(p, other));)
        if ((!g || other->group == g) && is_awake(p, other) && before(other, t))
            together += other->told.need;
    return t->told.need <= room / SMALL && together <= room / SMALL_TOGETHER;
}

static bool is_over(const struct group *g) {
    return g->set.memory && g->need > g->set.memory;
}

static void judge_takers(struct policy *p) {
    uint64_t sum = 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        g->need = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        t->group->need += is_awake(p, t) ? t->told.need : 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        sum += is_over(g) ? g->set.memory : g->need;
    bool all = sum > p->capacity;
    p->crowded = all;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        bool over = is_over(t->group);
        uint64_t room = !all ? t->group->set.memory : over ? least(p->capacity, t->group->set.memory) : p->capacity;
        t->taker = (all || over) && !is_small(p, t, all ? NULL : t->group, room);
        p->crowded |= over;
    }
}

static uint64_t needs(const struct policy *p) {
    uint64_t sum = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        sum += t->suspended ? 0 : t->told.need;
    return sum;
}

void crowd_take(struct policy *p, bool turns) {
    p->taking = turns;
    p->taking_need = turns ? needs(p) : 0;
}

static void look(struct policy *p, uint64_t looks) {
    p->thrash = (struct thrash){.on = true, .begun = p->now, .looks = looks};
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        t->stalled_looked = t->told.stalled_ns;
}

/* A tenant whose operation needs more than its budget refills nothing: it stalls. */
static bool is_hot(const struct policy *p, uint64_t span) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->told.stalled_ns > t->stalled_looked && t->told.stalled_ns - t->stalled_looked > span / 2)
            return true;
    return scaled(p->thrash.refilled, MS(1000), p->rate) > span / 100 * HOT;
}

/* So long as tenants that do not fit co-run, what comes back after it left for others is watched. */
static void judge_thrash(struct policy *p) {
    struct thrash *w = &p->thrash;
    if (!p->crowded || p->taking) {
        *w = (struct thrash){0};
        return;
    }
    if (!w->on)
        look(p, 0);
    uint64_t span = p->now - w->begun;
    if (span < LOOK_NS)
        return;
    look(p, is_hot(p, span) ? w->looks + 1 : 0);
    if (w->looks < LOOKS)
        return;
    crowd_take(p, true);
    p->state.thrashed++;
    *w = (struct thrash){0};
}

void crowd_judge(struct policy *p) {
    bool was = p->crowded;
    judge_takers(p);
    if (was && !p->crowded)
        p->fits_since = p->now;
    bool calm = !p->crowded && p->now - p->fits_since >= CALM_NS;
    if (calm || needs(p) < p->taking_need - p->taking_need / FELL)
        p->taking = false;
    judge_thrash(p);
}

uint64_t crowd_next(const struct policy *p) {
    uint64_t next = p->thrash.on ? p->thrash.begun + LOOK_NS : NEVER;
    if (p->taking && !p->crowded)
        next = least(next, p->fits_since + CALM_NS);
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (!is_busy(t) && is_awake(p, t))
            next = least(next, t->wanted_ns + AWAY_NS);
    return next;
}
