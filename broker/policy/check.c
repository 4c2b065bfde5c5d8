/* The checker of the whole policy. */
#include "broker/policy/state.h"

static uint64_t budgets(const struct policy *p, const struct group *g) {
    uint64_t sum = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        sum += !g || t->group == g ? t->budget : 0;
    return sum;
}

static const char *check_bytes(const struct policy *p) {
    if (budgets(p, NULL) > p->capacity)
        return "the budgets are above the capacity";
    if (bytes_reserved(p, NULL) > most(p->capacity, p->reserved))
        return "more is reserved than the capacity";
    for (struct group *g = NULL; (g = group_after(p, g));) {
        if (g->set.memory && budgets(p, g) > g->set.memory)
            return "the budgets of a group are above its memory";
        if (g->set.memory && bytes_reserved(p, g) > most(g->set.memory, g->reserved))
            return "more is reserved than a group's memory";
    }
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->budget > t->reserved || t->budget != t->lease.budget)
            return "a budget is not reserved";
    return NULL;
}

static const char *check_gates(const struct policy *p) {
    uint64_t open = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        open += t->open && turn_takes(p, t);
        if (t->suspended && (t->open || t->budget || !t->lease.suspended))
            return "a tenant is suspended, and has a turn or a budget";
        if (t->open && t->draining)
            return "a tenant drains and may issue";
        if (t->open != t->lease.may_issue)
            return "a lease does not say what its gate is";
        if (t->open && t->group->set.hard && t->group->spent)
            return "a tenant is above its hard limit";
        for (struct tenant *other = NULL; t->open && (other = tenant_after(p, other));)
            if (share_wants(p, other) && other->group->set.priority > t->group->set.priority)
                return "a tenant runs while one of a higher priority wants";
    }
    return open > 1 ? "two have an exclusive turn" : NULL;
}

const char *policy_check(const struct policy *p) {
    uint64_t tenants = 0;
    for (struct group *g = NULL; (g = group_after(p, g));)
        tenants += g->tenants;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        tenants--;
    const char *wrong = tenants ? "tenants are miscounted" : check_bytes(p);
    return wrong ? wrong : check_gates(p);
}
