#include "environment.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t environment_number(const char *name, uint64_t missing) {
    static const struct {
        const char *text;
        int shift;
    } units[] = {{"", 0},   {"K", 10},   {"KiB", 10}, {"M", 20},  {"MiB", 20},
                 {"G", 30}, {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    const char *text = getenv(name);
    if (!text)
        return missing;
    char *rest;
    uint64_t n = strtoull(text, &rest, 10);
    for (size_t i = 0; rest != text && *text != '-' && i < sizeof units / sizeof *units; i++)
        if (!strcmp(rest, units[i].text) && n <= UINT64_MAX >> units[i].shift)
            return n << units[i].shift;
    fprintf(stderr, "emu: %s=%s is not a number; %llu is used\n", name, text, (unsigned long long)missing);
    return missing;
}
