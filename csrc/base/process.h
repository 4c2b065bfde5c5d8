/* What tells this process from every other, past ones with the same number included. */
#ifndef ULMS_PROCESS_H
#define ULMS_PROCESS_H

#include "types.h"

/* When this process started, in clock ticks from boot; 0 when /proc does not say. */
uint64_t process_start(void);
/* Whether the process with this number that started then still runs; a zombie does not. Only of the own namespace. */
bool process_runs(uint32_t pid, uint64_t start);
/* What tells this namespace of process numbers from others, such as a container's; 0 when /proc does not say. */
uint64_t process_namespace(void);
/* Name of the executable without its folder, cut to fit; "" when /proc does not say. */
void process_name(char *out, size_t size);

#endif
