/* The framework's allocator gives out blocks, and takes them back. */
#ifndef ULMS_PAGER_ALLOCATOR_H
#define ULMS_PAGER_ALLOCATOR_H

#include "types.h"

/* See backend.h. */
void pager_block_before(void);
void pager_block(addr_t start, uint64_t bytes, bool live);

#endif
