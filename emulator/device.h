/* Devices: how many, how much memory, how much of it is taken. And what the environment says. */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include "cuda/abi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { DEVICES_MAX = 16 };

#define GRANULE (2ull << 20) /* physical memory, and managed pages, come in pieces of this */

/* Bytes of the granules that so many bytes need. */
static inline uint64_t whole_granules(uint64_t bytes) {
    return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

struct device {
    int ordinal;
    uint64_t memory;
    CUcontext primary;
    CUmemoryPool default_pool, pool;          /* pool: what cuMemAllocAsync takes from */
    atomic_ullong graph_used;                 /* bytes that graphs have allocated */
    atomic_ullong graph_reserved, graph_high; /* that they hold, and the most they ever did */
    uint64_t graph_left;                      /* of graphmemory.c */
};

extern struct device devices[DEVICES_MAX];
extern int driver_version; /* 13000: CUDA 13.0 */

/* Once per process, by cuInit: reads the environment and reserves the addresses. */
CUresult devices_open(void);
bool device_valid(CUdevice ordinal);
/* In managed.c: takes physical memory of the device, moving managed pages out when it is full. False: it stays full. */
bool device_take(struct device *d, uint64_t bytes);
void device_give(struct device *d, uint64_t bytes);

#endif
