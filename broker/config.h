/* What a configuration file says. One of three forms, told by what is in it: tables of settings (TOML, one key a line),
 * and Gemini's two: tables with its own names, and a count with a line for each client. */
#ifndef BROKER_CONFIG_H
#define BROKER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "share/settings.h"

struct config {
    uint64_t capacity; /* bytes of each GPU that are shared out at most; UINT64_MAX: not said */
    uint64_t turn_ns;  /* 0: not said */
    uint32_t resident; /* tenants on each GPU at most; 0: not said */
    uint32_t groups;
    struct {
        char name[SHARE_NAME_MAX];
        struct share_settings settings;
    } group[POLICY_GROUPS];
};

/* `text` is changed. False: `wrong` says the line and what is wrong with it. */
bool config_read(char *text, struct config *out, char *wrong, size_t room);

#endif
