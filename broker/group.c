#include "broker/group.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct group groups[POLICY_GROUPS + 1]; /* by number; 0 is none */

bool group_name_is_good(const char *name) {
    size_t n = strnlen(name, sizeof groups->name);
    if (n == 0 || n == sizeof groups->name)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}

/* One that nobody uses and nobody has set is free. */
uint32_t group_join(const char *name) {
    uint32_t free = 0;
    for (uint32_t id = POLICY_GROUPS; id > 0; id--) {
        if (strcmp(groups[id].name, name) == 0) {
            groups[id].users++;
            return id;
        }
        free = groups[id].users == 0 && !groups[id].set ? id : free;
    }
    if (free) {
        groups[free] = (struct group){.users = 1};
        snprintf(groups[free].name, sizeof groups[free].name, "%s", name);
    }
    return free;
}

void group_leave(uint32_t id) {
    groups[id].users--;
}

struct group *group_of(uint32_t id) {
    return &groups[id];
}
