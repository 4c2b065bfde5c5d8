/* Numbers from the environment. */
#ifndef EMU_ENVIRONMENT_H
#define EMU_ENVIRONMENT_H

#include <stdint.h>

/* The variable's value, with K, M, G, T, KiB, MiB, GiB, TiB after it; `missing` when it is unset, or not a number,
 * which is said on stderr. */
uint64_t environment_number(const char *name, uint64_t missing);

#endif
