/* Groups by name: a number for each, the same on all GPUs. */
#ifndef BROKER_GROUP_H
#define BROKER_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/policy.h"

struct group {
    char name[64];
    struct policy_group settings;
    bool set;       /* somebody has said what they are */
    uint32_t users; /* tenants in it */
};

/* Letters, digits and ._-; at least one. */
bool group_name_is_good(const char *name);
/* The number of the group of that name, from 1, which gets a user more; 0: there are too many. */
uint32_t group_join(const char *name);
void group_leave(uint32_t id);
struct group *group_of(uint32_t id);

#endif
