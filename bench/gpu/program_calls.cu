/* What a program's own calls take on plain memory, on managed memory that lies on the device, and on memory that is
 * mapped there: on the thread that makes them, and until the device is done.
 *
 * Prints one line of JSON a measurement. Takes 16 MiB of managed memory, which must be free on the device. */
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "must.h"

static const size_t KIB = 1 << 10, MIB = 1 << 20, BYTES = 16 * MIB;
enum { TIMES = 40, BATCH = 64 }; /* as many as the device's queue takes at once */

static CUstream stream;
static char *pageable;
static void *pinned;

__global__ void touch(int *p) {
    p[threadIdx.x]++;
}

/* --- memory --- */

static CUdeviceptr plain(void) {
    CUdeviceptr p;
    MUST(cuMemAlloc(&p, BYTES));
    return p;
}

static CUdeviceptr managed(void) {
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t free, total;
    CUdeviceptr p;
    MUST(cuMemGetInfo(&free, &total));
    if (free < 64 * BYTES) {
        fprintf(stderr, "too little of the device is free: managed memory must not fill it\n");
        exit(1);
    }
    MUST(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemPrefetchAsync(p, BYTES, device, 0, stream));
    return p;
}

static CUdeviceptr mapped(void) {
    CUmemAllocationProp prop = {};
    CUmemAccessDesc access = {};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(cuMemAddressReserve(&p, BYTES, 0, 0, 0));
    MUST(cuMemCreate(&handle, BYTES, &prop, 0));
    MUST(cuMemMap(p, BYTES, 0, handle, 0));
    MUST(cuMemSetAccess(p, BYTES, &access, 1));
    return p;
}

/* --- calls --- */

struct call {
    const char *name;
    void (*issue)(CUdeviceptr p);
};

static void launch(CUdeviceptr p) {
    touch<<<1, 32, 0, stream>>>((int *)p);
}

static void set_little(CUdeviceptr p) {
    MUST(cuMemsetD8Async(p, 0, 4 * KIB, stream));
}

static void set_much(CUdeviceptr p) {
    MUST(cuMemsetD8Async(p, 0, 4 * MIB, stream));
}

static void copy_little(CUdeviceptr p) {
    MUST(cuMemcpyDtoDAsync(p, p + 8 * MIB, 4 * KIB, stream));
}

static void copy_much(CUdeviceptr p) {
    MUST(cuMemcpyDtoDAsync(p, p + 8 * MIB, 4 * MIB, stream));
}

static void bring_pinned(CUdeviceptr p) {
    MUST(cuMemcpyHtoDAsync(p, pinned, 4 * KIB, stream));
}

static void bring_pageable(CUdeviceptr p) {
    MUST(cuMemcpyHtoDAsync(p, pageable, 4 * KIB, stream));
}

static void fetch(CUdeviceptr p) {
    MUST(cuMemcpyDtoHAsync(pageable, p, 4, stream));
}

static const struct call calls[] = {{"launch", launch},
                                    {"memset of 4 KiB", set_little},
                                    {"memset of 4 MiB", set_much},
                                    {"copy of 4 KiB", copy_little},
                                    {"copy of 4 MiB", copy_much},
                                    {"4 KiB from pinned memory", bring_pinned},
                                    {"4 KiB from pageable memory", bring_pageable},
                                    {"4 bytes to pageable memory", fetch}};

static double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

static void measure(const struct call *call, const char *where, CUdeviceptr p) {
    std::vector<double> issued, done;
    for (int i = 0; i < TIMES; i++) {
        MUST(cuStreamSynchronize(stream));
        double start = now_us();
        for (int j = 0; j < BATCH; j++)
            call->issue(p);
        issued.push_back((now_us() - start) / BATCH);
        MUST(cuStreamSynchronize(stream));
        done.push_back((now_us() - start) / BATCH);
    }
    printf("{\"kind\": \"program\", \"what\": \"%s, %s memory\", \"issued_us\": %.2f, \"done_us\": %.2f}\n", call->name,
           where, median(issued), median(done));
}

int main() {
    CUdevice device;
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocHost(&pinned, 4 * KIB));
    pageable = (char *)calloc(1, 4 * KIB);
    const char *const names[] = {"plain", "managed", "mapped"};
    CUdeviceptr memory[] = {plain(), managed(), mapped()};
    for (CUdeviceptr p : memory)
        MUST(cuMemsetD8(p, 0, BYTES));
    for (const struct call &call : calls)
        for (int kind = 0; kind < 3; kind++)
            measure(&call, names[kind], memory[kind]);
    return 0;
}
