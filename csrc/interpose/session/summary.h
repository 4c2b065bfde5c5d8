/* The line at start and the lines at exit, at level INFO. */
#ifndef ULMS_SUMMARY_H
#define ULMS_SUMMARY_H

#include "types.h"

/* total: bytes the device has. */
void summary_start(const char *device, uint64_t total);
void summary_print(void);

#endif
