/* Programs of several parts: the first argument names the one that runs. */
#ifndef PROGRAM_PART_H
#define PROGRAM_PART_H

#include <stddef.h>
#include <string.h>

struct part {
    const char *name; /* NULL: behind the last */
    void (*run)(void);
};

/* The program's exit status: 2 where there is no such part. */
static inline int run_part(const struct part *parts, int argc, char **argv) {
    for (; parts->name; parts++)
        if (argc > 1 && strcmp(argv[1], parts->name) == 0) {
            parts->run();
            return 0;
        }
    return 2;
}

#endif
