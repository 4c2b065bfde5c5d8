/* Who was idle for long is put away: for its group's time, or the one idle longest where more are resident than may be.
 */
#include "broker/policy/state.h"

static bool is_crowd(const struct policy *p) {
    uint32_t resident = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        resident += !t->suspended;
    return p->resident > 0 && resident > p->resident;
}

/* When it is parked if nothing happens before. */
static uint64_t parks_ns(const struct tenant *t, bool crowd) {
    uint64_t after = t->group->set.idle_s ? MS(1000) * t->group->set.idle_s : NEVER;
    if (crowd)
        after = least(after, AWAY_NS);
    return t->suspended || is_busy(t) || after == NEVER ? NEVER : t->idle_ns + after;
}

static struct tenant *next(const struct policy *p) {
    bool crowd = is_crowd(p);
    struct tenant *best = NULL;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (parks_ns(t, crowd) <= p->now &&
            (!best || t->idle_ns < best->idle_ns || (t->idle_ns == best->idle_ns && t->id < best->id)))
            best = t;
    return best;
}

void park_judge(struct policy *p) {
    for (struct tenant *t; (t = next(p));)
        t->suspended = POLICY_PARKED;
}

uint64_t park_next(const struct policy *p) {
    bool crowd = is_crowd(p);
    uint64_t at = NEVER;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        at = least(at, parks_ns(t, crowd));
    return at;
}
