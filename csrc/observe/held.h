/* What was held at gates, by kernel or call: rows of fixed number in the memory of the live counters, for `pump top`
 * and the lines at exit. */
#ifndef ULMS_HELD_H
#define ULMS_HELD_H

#include "types.h"
#include "ulms.h"

/* One operation was held for ns, for pages of so many bytes. key: not 0, the same for the same name. Any thread. */
void held_add(uint64_t key, const char *name, uint64_t ns, uint64_t missing_bytes);
/* The rows held longest, longest first, n at most; returns how many. Others may be adding. */
size_t held_worst(struct ulms_held *out, size_t n);

#endif
