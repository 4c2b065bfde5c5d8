/* The configuration file while the broker runs: read at the start, and again when it has changed. */
#ifndef BROKER_RELOAD_H
#define BROKER_RELOAD_H

#include <stdbool.h>
#include <stdint.h>

/* turn_ns: of a turn, where the file does not say it. False: it is not right, which was told. */
bool reload_begin(const char *path, uint64_t turn_ns, uint64_t now);
/* Looks whether it has changed. One that is not right is told of, and the settings stay as they were. When to look
 * again, ns; UINT64_MAX: there is no file. */
uint64_t reload_tick(uint64_t now);
/* NULL: there is none. */
const char *reload_path(void);
/* What is wrong with it now, with file and line; "": nothing. */
const char *reload_wrong(void);

#endif
