#include "launch/named.h"

#include <string.h>

static bool fits(const struct name_rule *r, const char *name) {
    bool good = strncmp(name, r->begins, strlen(r->begins)) == 0;
    for (int i = 0; good && i < NAME_PARTS && r->part[i]; i++)
        good = strstr(name, r->part[i]) != NULL;
    return good;
}

bool is_named(const struct name_rule *rules, size_t n, const char *name) {
    for (const struct name_rule *r = rules; r < rules + n; r++)
        if (fits(r, name))
            return true;
    return false;
}
