/* Physical memory apart from addresses: what a handle of cuMemCreate means. */
#ifndef EMU_PHYSICAL_H
#define EMU_PHYSICAL_H

#include "device.h"

struct physical {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    struct device *device; /* NULL: host */
    uint64_t bytes, charged;
    int file;
    bool own_file; /* made to be exported: a handle is its file descriptor */
    uint64_t offset;
    atomic_uint handles, mappings;
};

/* NULL: it is none, or gone. */
struct physical *physical_of(CUmemGenericAllocationHandle handle);
/* The device of a location, NULL for the host; false: no such location. */
bool physical_device(const CUmemLocation *l, struct device **out);
/* A mapping of it is gone. */
void physical_unmapped(struct physical *p);

#endif
