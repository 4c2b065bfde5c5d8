/* Groups and tenants come and go. */
#include <string.h>

#include "broker/policy/state.h"

struct tenant *tenant_after(const struct policy *p, const struct tenant *t) {
    for (t = t ? t + 1 : p->tenants; t < p->tenants + POLICY_TENANTS; t++)
        if (t->id)
            return (struct tenant *)t;
    return NULL;
}

struct group *group_after(const struct policy *p, const struct group *g) {
    for (g = g ? g + 1 : p->groups; g < p->groups + POLICY_GROUPS; g++)
        if (g->id)
            return (struct group *)g;
    return NULL;
}

struct tenant *tenant_find(const struct policy *p, uint32_t id) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->id == id)
            return t;
    return NULL;
}

struct group *group_find(const struct policy *p, uint32_t id) {
    for (struct group *g = NULL; (g = group_after(p, g));)
        if (g->id == id)
            return g;
    return NULL;
}

uint64_t bytes_reserved(const struct policy *p, const struct group *g) {
    uint64_t sum = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        sum += !g || t->group == g ? t->reserved : 0;
    return sum;
}

int group_put(struct policy *p, uint32_t id, const struct policy_group *set) {
    if (id == 0 || set->request > THOUSAND || set->limit > THOUSAND || set->hard > 1 || set->pin > 1)
        return POLICY_WRONG;
    struct group *g = group_find(p, id);
    for (size_t i = 0; !g && i < POLICY_GROUPS; i++)
        if (!p->groups[i].id) {
            g = &p->groups[i];
            *g = (struct group){.id = id, .tokens = BUCKET_NS};
        }
    if (!g)
        return POLICY_FULL;
    g->set = *set;
    return POLICY_OK;
}

int group_take(struct policy *p, uint32_t id) {
    struct group *g = group_find(p, id);
    if (!g)
        return POLICY_UNKNOWN;
    if (g->tenants > 0)
        return POLICY_TAKEN;
    *g = (struct group){0};
    return POLICY_OK;
}

int tenant_put(struct policy *p, uint32_t id, struct group *g, uint64_t floor, uint64_t held) {
    if (id == 0)
        return POLICY_WRONG;
    if (!g)
        return POLICY_UNKNOWN;
    if (tenant_find(p, id))
        return POLICY_TAKEN;
    for (size_t i = 0; i < POLICY_TENANTS; i++)
        if (!p->tenants[i].id) {
            p->tenants[i] = (struct tenant){.id = id,
                                            .group = g,
                                            .floor = least(floor, BYTES_MOST),
                                            .reserved = least(held, p->capacity),
                                            .shrinks_ns = NEVER,
                                            .wanted_ns = NEVER,
                                            .idle_ns = p->now,
                                            .deadline = NEVER,
                                            .lease.tenant = id};
            g->tenants++;
            return POLICY_OK;
        }
    return POLICY_FULL;
}

void tenant_take(struct policy *p, struct tenant *t) {
    p->holder = p->holder == t ? NULL : p->holder;
    p->elect = p->elect == t ? NULL : p->elect;
    t->group->tenants--;
    *t = (struct tenant){0};
}
