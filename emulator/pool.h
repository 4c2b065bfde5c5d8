/* Pools: stream-ordered allocation. */
#ifndef EMU_POOL_H
#define EMU_POOL_H

#include "context.h"

struct CUmemPoolHandle_st {
    struct device *device;
    CUmemPoolProps props;
    pthread_mutex_t lock;
    bool destroyed; /* freed when the last of its memory is */
    uint64_t used, used_high;
    uint64_t threshold;
    int reuse[4]; /* of the attributes that only steer reuse */
    unsigned char rights[DEVICES_MAX];
};

/* The device's own pool, made on first use; NULL: no memory. */
CUmemoryPool pool_default(struct device *d);
/* A piece of so many bytes left the pool; nothing for NULL. */
void pool_credit(CUmemoryPool p, uint64_t bytes);
/* True when another device may use the pool's memory. mode: enum emu_mode. */
bool pool_lets(CUmemoryPool p, int device, int mode);

#endif
