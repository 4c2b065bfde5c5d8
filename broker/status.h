/* What is so now, as JSON, for `pump share status` and `pump top`. */
#ifndef BROKER_STATUS_H
#define BROKER_STATUS_H

#include <stddef.h>
#include <stdint.h>

/* Writes at most `room` bytes, with the final zero; gpus_tick was called just now. The length, or 0 if it does not fit.
 */
size_t status_write(char *out, size_t room, uint64_t now);

#endif
