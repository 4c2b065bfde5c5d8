/* The counters of ulms.so, where a program runs under it. */
#ifndef PROGRAM_COUNTERS_H
#define PROGRAM_COUNTERS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ulms.h"

typedef uint64_t (*counter_reader)(const char *name);

/* ulms_counter; NULL: the program runs without ulms.so. */
static inline counter_reader find_counter(void) {
    return (counter_reader)dlsym(RTLD_DEFAULT, "ulms_counter");
}

/* Prints "counter NAME VALUE" for each; without ulms.so nothing. */
static inline void print_counters(void) {
    const struct ulms_stats *(*stats)(void) = (const struct ulms_stats *(*)(void))dlsym(RTLD_DEFAULT, "ulms_stats");
    counter_reader counter = find_counter();
    for (uint32_t i = 0; stats && i < stats()->counters; i++)
        printf("counter %s %llu\n", stats()->row[i].name, (unsigned long long)counter(stats()->row[i].name));
}

/* The same at the end, when all that was done has been counted. To be called before cuInit: what ends ulms.so is
 * registered after it and runs before. False: the program runs without ulms.so. */
static inline bool print_counters_at_exit(void) {
    atexit(print_counters);
    return dlsym(RTLD_DEFAULT, "ulms_stats") != NULL;
}

#endif
