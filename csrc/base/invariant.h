/* What the checkers stand on: they end the process at the first violation. */
#ifndef ULMS_INVARIANT_H
#define ULMS_INVARIANT_H

#include <stdio.h>
#include <stdlib.h>

#define INVARIANT(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
