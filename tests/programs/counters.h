/* The counters of ulms.so, where a program runs under it. */
#ifndef PROGRAM_COUNTERS_H
#define PROGRAM_COUNTERS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

#include "ulms.h"

/* Prints "counter NAME VALUE" for each. False: nothing, as the program runs without ulms.so. */
static inline bool print_counters(void) {
    const struct ulms_stats *(*stats)(void) = (const struct ulms_stats *(*)(void))dlsym(RTLD_DEFAULT, "ulms_stats");
    uint64_t (*counter)(const char *) = (uint64_t (*)(const char *))dlsym(RTLD_DEFAULT, "ulms_counter");
    for (uint32_t i = 0; stats && i < stats()->counters; i++)
        printf("counter %s %llu\n", stats()->row[i].name, (unsigned long long)counter(stats()->row[i].name));
    return stats != NULL;
}

#endif
