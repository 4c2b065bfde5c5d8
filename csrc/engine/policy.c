#include "engine/policy.h"

#include <string.h>

static const struct policy policies[] = {
    {.about = {"ahead", "hold an operation until its pages are here; learn what comes next"},
     .kind = &policy_ahead,
     .fills = true},
    {.about = {"pump", "fill for what is issued, within the budget; least recently used leaves"},
     .kind = &policy_ordered,
     .fills = true},
    {.about = {"none", "kernels fault their pages in; least recently used leaves"}, .kind = &policy_ordered},
};

enum { POLICIES = sizeof(policies) / sizeof(*policies) };

size_t ulms_policy_count(void) {
    return POLICIES;
}

const struct ulms_policy *ulms_policy(size_t i) {
    return i < POLICIES ? &policies[i].about : NULL;
}

const struct policy *policy_find(const char *name) {
    for (size_t i = 0; i < POLICIES; i++)
        if (!name || strcmp(name, policies[i].about.name) == 0)
            return &policies[i];
    return NULL;
}

int ulms_policy_holds(const char *name) {
    const struct policy *p = policy_find(name);
    return p && policy_holds(p);
}
