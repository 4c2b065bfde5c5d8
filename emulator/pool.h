/* Pools: stream-ordered allocation. */
#ifndef EMU_POOL_H
#define EMU_POOL_H

#include "context.h"
#include "space.h"

struct CUmemPoolHandle_st {
    struct device *device;
    CUmemPoolProps props;
    pthread_mutex_t lock;
    bool destroyed; /* freed when the last of its memory is */
    uint64_t used, used_high;
    atomic_ullong reserved, reserved_high; /* bytes of the device */
    struct space small;                    /* what is free of its granules; under the lock of memory.c */
    uint64_t threshold;
    int reuse[4]; /* of the attributes that only steer reuse */
};

/* Takes bytes of the device for the pool, or for none (NULL); gives them back. */
bool pool_take(CUmemoryPool p, struct device *d, uint64_t bytes);
void pool_give(CUmemoryPool p, struct device *d, uint64_t bytes);
/* A piece of so many bytes left the pool; nothing for NULL. */
void pool_credit(CUmemoryPool p, uint64_t bytes);

#endif
