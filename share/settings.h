/* What a group of tenants gets, as people write it. */
#ifndef SHARE_SETTINGS_H
#define SHARE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/policy.h"
#include "share/message.h"

enum setting {
    SETTING_MEMORY = 1,
    SETTING_REQUEST = 2,
    SETTING_LIMIT = 4,
    SETTING_HARD = 8,
    SETTING_PRIORITY = 16,
    SETTING_PIN = 32,
    SETTING_IDLE = 64,
    SETTINGS_ALL = 127
};

struct share_settings {
    struct policy_group to;
    uint32_t said; /* which of them, a bit of `enum setting` each */
};

/* Letters, digits and ._-/; at least one, and less than SHARE_NAME_MAX. */
bool settings_name_is_good(const char *name);
/* One setting: request and limit are parts of GPU time, memory is a size; "none" takes any of them away. NULL, or what
 * is accepted of that key. */
const char *settings_put(struct share_settings *s, const char *key, const char *value);
/* "NAME[,request=0.3][,limit=0.6][,hard][,memory=8GiB][,priority=1][,pin][,idle=30s]". NULL, or what is wrong. */
const char *settings_read(const char *text, char name[SHARE_NAME_MAX], struct share_settings *s);
/* What was said of them takes the place of what they were. */
void settings_over(struct policy_group *group, const struct share_settings *s);

#endif
