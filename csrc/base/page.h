/* What managed memory is placed, moved and counted in. */
#ifndef ULMS_PAGE_H
#define ULMS_PAGE_H

#include "types.h"

enum { PAGE_LEAST = 2 << 20, PAGE_MOST = 64 << 20 };

/* Bytes; a power of two from PAGE_LEAST to PAGE_MOST. Set before there is any memory of ours, and never again. */
extern uint64_t page_bytes;

/* Bytes in whole grains of PAGE_LEAST, which memory of ours is provided in; 0 where that would wrap. */
static inline uint64_t whole_grains(uint64_t bytes) {
    return (bytes + PAGE_LEAST - 1) / PAGE_LEAST * PAGE_LEAST;
}

/* Bytes in whole pages; 0 where that would wrap. */
static inline uint64_t whole_pages(uint64_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

#endif
