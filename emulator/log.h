/* The log of touches: what operations truly used, for tests to compare with. */
#ifndef EMU_LOG_H
#define EMU_LOG_H

#include <stdint.h>

struct emu_launch;

/* Adds one entry if the log is on. */
void log_touch(const struct emu_launch *r, uint64_t address, uint64_t bytes, int mode);

#endif
