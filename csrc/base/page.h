/* What managed memory is placed, moved and counted in. */
#ifndef ULMS_PAGE_H
#define ULMS_PAGE_H

#include "types.h"

enum { PAGE_BYTES = 2 << 20 };

/* Bytes in whole pages; 0 where that would wrap. */
static inline uint64_t whole_pages(uint64_t bytes) {
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

#endif
