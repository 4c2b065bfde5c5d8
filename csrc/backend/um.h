/* What the files of the managed-memory backend share. */
#ifndef ULMS_UM_H
#define ULMS_UM_H

#include "types.h"

/* um_memory.c: see backend.h */
bool um_serves(int32_t device);
bool um_provide(addr_t *start, uint64_t bytes, int32_t device);

#endif
