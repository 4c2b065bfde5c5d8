/* The machine's own memory. */
#ifndef ULMS_HOST_H
#define ULMS_HOST_H

#include "types.h"

/* Bytes that this process could still have without driving others out: what the system has available, and what its
 * control groups leave it. 0: not known. */
uint64_t host_memory(void);

#endif
