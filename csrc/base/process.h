/* What the kernel tells this process: of itself, and of what lies in its memory. */
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

/* Copies `bytes` of the program's memory that may not be readable: nothing faults. Returns how many came. */
size_t process_read(void *to, const void *from, size_t bytes);
/* The same of n pieces of `bytes` each, PROCESS_PIECES at most; returns how many came whole, from the first on. */
enum { PROCESS_PIECES = 64 };
size_t process_read_pieces(void *to, size_t bytes, void *const *from, size_t n);
/* False: nothing can be read so, which is no answer to what lies there. Tells in a line what is refused. */
bool process_reads(void);

#endif
