#include "broker/group.h"

#include <stdio.h>
#include <string.h>

static struct group groups[POLICY_GROUPS + 1]; /* by number; 0 is none */

/* One that nobody uses and for which nothing is fixed is free. */
static uint32_t find(const char *name) {
    uint32_t free = 0;
    for (uint32_t id = POLICY_GROUPS; id > 0; id--) {
        bool used = groups[id].users || groups[id].fixed.said;
        if (used && strcmp(groups[id].name, name) == 0)
            return id;
        free = used ? free : id;
    }
    if (free) {
        groups[free] = (struct group){.renamed = true};
        snprintf(groups[free].name, sizeof groups[free].name, "%s", name);
    }
    return free;
}

uint32_t group_join(const char *name) {
    uint32_t id = find(name);
    groups[id].users += id > 0;
    return id;
}

static void settle(struct group *g) {
    g->settings = g->asked;
    settings_over(&g->settings, &g->fixed);
}

void group_leave(uint32_t id) {
    if (--groups[id].users > 0)
        return;
    group_ask(&groups[id], &(struct policy_group){0});
    groups[id].suspended = false;
}

uint32_t group_named(const char *name) {
    uint32_t id = POLICY_GROUPS;
    while (id > 0 && !(groups[id].users && strcmp(groups[id].name, name) == 0))
        id--;
    return id;
}

struct group *group_of(uint32_t id) {
    return id > 0 && id <= POLICY_GROUPS ? &groups[id] : NULL;
}

void group_ask(struct group *g, const struct policy_group *settings) {
    g->asked = *settings;
    settle(g);
}

uint32_t group_fix(const char *name, const struct share_settings *more) {
    uint32_t id = find(name);
    if (!id)
        return 0;
    settings_over(&groups[id].fixed.to, more);
    groups[id].fixed.said |= more->said;
    settle(&groups[id]);
    return id;
}

void groups_unfix(void) {
    for (uint32_t id = POLICY_GROUPS; id > 0; id--) {
        groups[id].fixed.said = 0;
        settle(&groups[id]);
    }
}
