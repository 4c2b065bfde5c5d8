/* What the programs that map memory share: plain C, and C++ of CUDA's compiler. */
#ifndef BENCH_REMAP_H
#define BENCH_REMAP_H

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/gpu/must.h"

enum { DEVICE, HOST, PLACES };

#define MIB ((size_t)1 << 20)

/* Every thread makes it its own current one. */
static CUcontext context;

static inline void open_device(void) {
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
}

static inline CUmemGenericAllocationHandle create(int place, size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = place == DEVICE ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static inline CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr start;
    MUST(cuMemAddressReserve(&start, bytes, 0, 0, 0));
    return start;
}

/* Device 0 may use what is mapped there. */
static const CUmemAccessDesc access_of = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static inline void allow(CUdeviceptr at, size_t bytes) {
    MUST(cuMemSetAccess(at, bytes, &access_of, 1));
}

/* Memory that stays. */
static inline CUdeviceptr plain(int place, size_t bytes) {
    CUmemGenericAllocationHandle handle = create(place, bytes);
    CUdeviceptr at = reserve(bytes);
    MUST(cuMemMap(at, bytes, 0, handle, 0));
    allow(at, bytes);
    MUST(cuMemRelease(handle));
    return at;
}

static inline CUstream stream_new(void) {
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

#endif
