/* Kernels known by their names as compiled. */
#ifndef ULMS_NAMED_H
#define ULMS_NAMED_H

#include <stdbool.h>
#include <stddef.h>

enum { NAME_PARTS = 2 };

/* Names that begin so and hold all of the parts. */
struct name_rule {
    const char *begins, *part[NAME_PARTS];
};

/* One of n rules fits the name. */
bool is_named(const struct name_rule *rules, size_t n, const char *name);

#endif
