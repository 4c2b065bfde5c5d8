/* Sizes as people write them. */
#ifndef SHARE_SIZE_H
#define SHARE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* "8GiB", "512 M", "1.5g" or "1073741824", all powers of 1024, in bytes. False, and nothing set: it is no such text, or
 * it is 0 bytes or more than 64 bits. */
bool size_parse(const char *text, uint64_t *size);

#endif
