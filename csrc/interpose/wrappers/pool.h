/* Which memory of the backend's counts as a pool's. */
#ifndef ULMS_INTERPOSE_POOL_H
#define ULMS_INTERPOSE_POOL_H

#include "driver.h"
#include "types.h"

/* The pool that provided memory came from, for the program; NULL: none. */
CUmemoryPool pool_of(addr_t start);
/* The memory at start is freed. */
void pool_left(addr_t start);

#endif
