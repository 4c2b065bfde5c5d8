#define _GNU_SOURCE
#include "share/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/size.h"

bool settings_name_is_good(const char *name) {
    size_t n = strnlen(name, SHARE_NAME_MAX);
    if (n == 0 || n == SHARE_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-/", name[i]))
            return false;
    return true;
}

static bool is_none(const char *text) {
    return strcmp(text, "none") == 0;
}

/* 0.25, .5 or 1: thousandths, above 0. */
static bool read_time(const char *text, uint32_t *out) {
    uint64_t scaled;
    char number[16];
    *out = 0;
    if (is_none(text))
        return true;
    if (strspn(text, "0123456789.") != strlen(text) ||
        (size_t)snprintf(number, sizeof number, "%s%sG", *text == '.' ? "0" : "", text) >= sizeof number ||
        !size_parse(number, &scaled) || scaled > 1 << 30)
        return false;
    *out = (uint32_t)((scaled * 1000 + (1 << 29)) >> 30);
    return *out > 0;
}

static bool read_memory(const char *text, uint64_t *out) {
    *out = 0;
    return is_none(text) || size_parse(text, out);
}

static bool read_priority(const char *text, int32_t *out) {
    char *end;
    long n = is_none(text) ? 0 : strtol(text, &end, 10);
    *out = (int32_t)n;
    return is_none(text) || (end != text && !*end && n == *out);
}

static bool read_flag(const char *text, uint32_t *out) {
    *out = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    return *out || is_none(text) || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
}

static bool is_flag(const char *key) {
    return strcmp(key, "hard") == 0 || strcmp(key, "pin") == 0;
}

/* 30s, 10m or 8h. */
static bool read_idle(const char *text, uint32_t *out) {
    enum { MINUTE = 60, HOUR = 3600, MOST = UINT32_MAX / HOUR };
    char *unit = "";
    unsigned long n = is_none(text) ? 0 : strtoul(text, &unit, 10);
    uint32_t each = *unit == 's' ? 1 : *unit == 'm' ? MINUTE : *unit == 'h' ? HOUR : 0;
    *out = n <= MOST ? (uint32_t)n * each : 0;
    return is_none(text) || (isdigit((unsigned char)*text) && *out > 0 && !unit[1]);
}

const char *settings_put(struct share_settings *s, const char *key, const char *value) {
    static const char of_time[] = "a part of GPU time above 0 and at most 1, such as 0.3, or none";
    const char *accepts = NULL;
    uint32_t bit = 0;
    if (strcmp(key, "request") == 0) {
        bit = SETTING_REQUEST;
        accepts = read_time(value, &s->to.request) ? NULL : of_time;
    } else if (strcmp(key, "limit") == 0) {
        bit = SETTING_LIMIT;
        accepts = read_time(value, &s->to.limit) ? NULL : of_time;
    } else if (strcmp(key, "memory") == 0) {
        bit = SETTING_MEMORY;
        accepts = read_memory(value, &s->to.memory) ? NULL : "a size such as 8GiB, or none";
    } else if (strcmp(key, "priority") == 0) {
        bit = SETTING_PRIORITY;
        accepts = read_priority(value, &s->to.priority) ? NULL : "a whole number";
    } else if (strcmp(key, "hard") == 0) {
        bit = SETTING_HARD;
        accepts = read_flag(value, &s->to.hard) ? NULL : "true or false";
    } else if (strcmp(key, "idle") == 0) {
        bit = SETTING_IDLE;
        accepts = read_idle(value, &s->to.idle_s) ? NULL : "a time such as 30s, 10m or 8h, or none";
    } else if (strcmp(key, "pin") == 0) {
        bit = SETTING_PIN;
        accepts = read_flag(value, &s->to.pin) ? NULL : "true or false";
    } else {
        return "a setting named request, limit, hard, memory, priority, pin or idle";
    }
    s->said |= bit;
    return accepts;
}

const char *settings_read(const char *text, char name[SHARE_NAME_MAX], struct share_settings *s) {
    char words[256], *next = words;
    const char *wrong = NULL;
    *s = (struct share_settings){.said = 0};
    if ((size_t)snprintf(words, sizeof words, "%s", text) >= sizeof words)
        return "fewer than 256 letters";
    snprintf(name, SHARE_NAME_MAX, "%.63s", strsep(&next, ","));
    if (!settings_name_is_good(name) || strcspn(text, ",") != strlen(name))
        return "a name of letters, digits and ._-/, 63 at most";
    for (char *key; !wrong && (key = strsep(&next, ","));) {
        char *value = strchr(key, '=');
        if (value)
            *value++ = 0;
        wrong = settings_put(s, key, value ? value : is_flag(key) ? "true" : "");
    }
    return wrong;
}

void settings_over(struct policy_group *group, const struct share_settings *s) {
    group->memory = s->said & SETTING_MEMORY ? s->to.memory : group->memory;
    group->request = s->said & SETTING_REQUEST ? s->to.request : group->request;
    group->limit = s->said & SETTING_LIMIT ? s->to.limit : group->limit;
    group->hard = s->said & SETTING_HARD ? s->to.hard : group->hard;
    group->priority = s->said & SETTING_PRIORITY ? s->to.priority : group->priority;
    group->pin = s->said & SETTING_PIN ? s->to.pin : group->pin;
    group->idle_s = s->said & SETTING_IDLE ? s->to.idle_s : group->idle_s;
}
