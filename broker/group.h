/* Groups by name: a number for each, the same on all GPUs. */
#ifndef BROKER_GROUP_H
#define BROKER_GROUP_H

#include <stdint.h>

#include "share/settings.h"

struct group {
    char name[SHARE_NAME_MAX];
    struct policy_group settings; /* what holds: what its tenants asked for, and over that what is fixed */
    struct policy_group asked;
    struct share_settings fixed; /* by the configuration file or a command */
    uint32_t users;              /* tenants in it */
    bool suspended;              /* whoever joins it is */
    bool renamed;                /* policies may know its number as that of another group, which is gone */
};

/* The number of the group of that name, from 1, which gets a user more; 0: there are too many. */
uint32_t group_join(const char *name);
void group_leave(uint32_t id);
/* The group of that name that has users; 0: none. */
uint32_t group_named(const char *name);
/* NULL: it is none. */
struct group *group_of(uint32_t id);
/* What a tenant asks for its group. */
void group_ask(struct group *g, const struct policy_group *settings);
/* Fixes more of a group, which may have no tenants. 0: there are too many groups. */
uint32_t group_fix(const char *name, const struct share_settings *more);
/* Nothing is fixed any more, of any group. */
void groups_unfix(void);

#endif
