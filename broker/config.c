#define _GNU_SOURCE
#include "broker/config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/size.h"

enum { TURN_MOST_S = 20, CLIENT_WORDS = 4 };

static struct {
    struct config *out;
    char *wrong;
    size_t room;
    int line;
} at;

static __attribute__((format(printf, 1, 2))) bool fail(const char *format, ...) {
    va_list args;
    int n = snprintf(at.wrong, at.room, "%d: ", at.line);
    va_start(args, format);
    vsnprintf(at.wrong + n, at.room - (size_t)n, format, args);
    va_end(args);
    return false;
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r", text[n - 1]); n--)
        text[n - 1] = 0;
    return text;
}

static char *unquoted(char *text) {
    size_t n = strlen(text);
    if (n < 2 || !strchr("\"'", *text) || text[n - 1] != *text)
        return text;
    text[n - 1] = 0;
    return text + 1;
}

/* The next line that says something, without what surrounds it. NULL: there is none. */
static char *next_line(char **rest) {
    for (char *line; (line = strsep(rest, "\n"));) {
        char quote = 0, *end = line;
        at.line++;
        for (; *end && (quote || *end != '#'); end++)
            if (quote ? *end == quote : *end == '"' || *end == '\'')
                quote = quote ? 0 : *end;
        *end = 0;
        line = trim(line);
        if (*line)
            return line;
    }
    return NULL;
}

static struct share_settings *group_new(const char *name) {
    struct config *c = at.out;
    if (!settings_name_is_good(name)) {
        fail("a group's name has letters, digits and ._-/ only, 63 at most: `%s`", name);
        return NULL;
    }
    for (uint32_t i = 0; i < c->groups; i++)
        if (strcmp(c->group[i].name, name) == 0) {
            fail("`%s` has a table already", name);
            return NULL;
        }
    if (c->groups == POLICY_GROUPS) {
        fail("there are more than %d groups", POLICY_GROUPS);
        return NULL;
    }
    snprintf(c->group[c->groups].name, sizeof c->group->name, "%s", name);
    return &c->group[c->groups++].settings;
}

static bool put(struct share_settings *s, const char *key, const char *said, const char *value) {
    const char *accepts = settings_put(s, key, value);
    return !accepts || fail("%s = %s: %s is accepted", said, value, accepts);
}

/* --- tables --- */

static bool set_of_all(const char *key, const char *value) {
    char *end;
    if (strcmp(key, "capacity") == 0)
        return size_parse(value, &at.out->capacity) || fail("capacity = %s: a size such as 60GiB is accepted", value);
    if (strcmp(key, "resident") == 0) {
        at.out->resident = (uint32_t)strtoul(value, &end, 10);
        bool good = isdigit((unsigned char)*value) && !*end && at.out->resident > 0;
        return good || fail("resident = %s: a number of programs above 0 is accepted", value);
    }
    if (strcmp(key, "turn") != 0)
        return fail("`%s` stands before the first table, where capacity, turn and resident do", key);
    double s = strtod(value, &end);
    at.out->turn_ns = s > 0 && s <= TURN_MOST_S ? (uint64_t)(s * 1e9) : 0;
    return (!*end && at.out->turn_ns) ||
           fail("turn = %s: seconds above 0 and at most %d are accepted", value, TURN_MOST_S);
}

/* Gemini's limit holds while nobody else wants the device, too. */
static bool set(struct share_settings *s, const char *key, const char *value) {
    if (strcmp(key, "MinUtil") == 0)
        return put(s, "request", key, value);
    if (strcmp(key, "MemoryLimit") == 0)
        return put(s, "memory", key, value);
    if (strcmp(key, "MaxUtil") == 0)
        return put(s, "limit", key, value) && put(s, "hard", key, "true");
    return put(s, key, key, value);
}

static bool read_tables(char *line, char **rest) {
    struct share_settings *s = NULL;
    for (; line; line = next_line(rest)) {
        size_t n = strlen(line);
        char *value = strchr(line, '=');
        if (*line == '[' && line[n - 1] == ']') {
            line[n - 1] = 0;
            if (!(s = group_new(unquoted(trim(line + 1)))))
                return false;
            continue;
        }
        if (!value)
            return fail("`%s` is neither [NAME] nor KEY = VALUE", line);
        *value++ = 0;
        line = trim(line);
        value = unquoted(trim(value));
        if (!(s ? set(s, line, value) : set_of_all(line, value)))
            return false;
    }
    return true;
}

/* --- clients --- */

static const char *or_none(const char *number) {
    return strspn(number, "0.") == strlen(number) ? "none" : number;
}

static bool read_client(char *line) {
    char *words[CLIENT_WORDS + 1] = {NULL}, *save;
    int n = 0;
    for (char *word = strtok_r(line, " \t", &save); word && n <= CLIENT_WORDS; word = strtok_r(NULL, " \t", &save))
        words[n++] = word;
    if (n != CLIENT_WORDS)
        return fail("a client has a name, a request, a limit and bytes of memory");
    struct share_settings *s = group_new(words[0]);
    return s && put(s, "request", "request", or_none(words[1])) && put(s, "limit", "limit", or_none(words[2])) &&
           put(s, "hard", "hard", "true") && put(s, "memory", "memory", or_none(words[3]));
}

static bool read_clients(const char *count, char **rest) {
    unsigned long n = strtoul(count, NULL, 10);
    for (char *line; (line = next_line(rest));)
        if (!read_client(line))
            return false;
    return at.out->groups == n || fail("%lu clients are announced, and there are %u", n, at.out->groups);
}

bool config_read(char *text, struct config *out, char *wrong, size_t room) {
    *out = (struct config){.capacity = UINT64_MAX};
    at.out = out;
    at.wrong = wrong;
    at.room = room;
    at.line = 0;
    char *rest = text, *first = next_line(&rest);
    if (!first)
        return true;
    return strspn(first, "0123456789") == strlen(first) ? read_clients(first, &rest) : read_tables(first, &rest);
}
