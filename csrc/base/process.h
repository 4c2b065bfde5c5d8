/* What tells this process from every other, past ones with the same number included. */
#ifndef ULMS_PROCESS_H
#define ULMS_PROCESS_H

#include "types.h"

/* When the process started, in clock ticks from boot; 0 when /proc does not say. */
uint64_t process_start(void);
/* Name of the executable without its folder, cut to fit; "" when /proc does not say. */
void process_name(char *out, size_t size);

#endif
