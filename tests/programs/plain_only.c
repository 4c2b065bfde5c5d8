/* Calls for managed and for mapped memory, on plain memory: the driver refuses them. What each answers is printed, and
 * whether the memory holds what it held. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define EACH(f)                                                                                                        \
    f(cuMemAlloc_v2) f(cuMemcpyDtoH_v2) f(cuMemsetD8_v2) f(cuCtxSynchronize) f(cuMemAdvise) f(cuMemAdvise_v2)          \
        f(cuMemPrefetchAsync) f(cuMemPrefetchAsync_v2) f(cuMemPrefetchBatchAsync) f(cuMemDiscardBatchAsync)            \
            f(cuMemDiscardAndPrefetchBatchAsync) f(cuMemRangeGetAttribute) f(cuMemRangeGetAttributes)                  \
                f(cuStreamAttachMemAsync) f(cuMemHostRegister) f(cuMemHostRegister_v2) f(cuMemHostUnregister)          \
                    f(cuMemFreeHost) f(cuPointerSetAttribute) f(cuMemSetAccess) f(cuMemGetAccess)                      \
                        f(cuMemRetainAllocationHandle) f(cuMemUnmap) f(cuMemMap) f(cuMemCreate) f(cuMemRelease)        \
                            f(cuMemAddressFree) f(cuMemFree_v2) f(cuMemGetHandleForAddressRange)
EACH(USE)

enum { BLOCKS = 4, BYTES = 8 << 20, PART = 2 << 20 };

static CUstream stream;

#define SAY(call) printf("%s: %d\n", #call, (int)(call))

static void for_managed(CUdeviceptr p, size_t size) {
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    uint64_t data = 77, data_size = 4, first = 0;
    void *out = &data;
    CUmem_range_attribute attribute = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
    for (int advice = 1; advice <= 6; advice++) {
        SAY(cuMemAdvise(p, size, (CUmem_advise)advice, 0));
        SAY(cuMemAdvise_v2(p, size, (CUmem_advise)advice, here));
    }
    SAY(cuMemPrefetchAsync(p, size, 0, stream));
    SAY(cuMemPrefetchAsync(p, size, -1, stream));
    SAY(cuMemPrefetchAsync_v2(p, size, here, 0, stream));
    SAY(cuMemPrefetchBatchAsync(&p, &size, 1, &here, &first, 1, 0, stream));
    SAY(cuMemDiscardBatchAsync(&p, &size, 1, 0, stream));
    SAY(cuMemDiscardAndPrefetchBatchAsync(&p, &size, 1, &here, &first, 1, 0, stream));
    for (int each = 1; each <= 8; each++)
        SAY(cuMemRangeGetAttribute(&data, 4, (CUmem_range_attribute)each, p, size));
    SAY(cuMemRangeGetAttributes(&out, &data_size, &attribute, 1, p, size));
    for (unsigned flags = 1; flags <= 4; flags *= 2)
        SAY(cuStreamAttachMemAsync(stream, p, size, flags));
    SAY(cuStreamAttachMemAsync(stream, p, 0, CU_MEM_ATTACH_SINGLE));
    printf("data: %llu\n", (unsigned long long)data);
}

static void for_host(CUdeviceptr p, size_t size) {
    void *at = (void *)(uintptr_t)p;
    unsigned on = 1;
    SAY(cuMemHostRegister(at, size, 0));
    SAY(cuMemHostRegister_v2(at, size, 0));
    SAY(cuMemHostUnregister(at));
    SAY(cuMemFreeHost(at));
    SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    SAY(cuMemFree_v2(p + 1));
}

static void for_mapped(CUdeviceptr p, size_t size) {
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemGenericAllocationHandle handle, none = 5;
    unsigned long long flags = 77;
    char handles[64];
    MUST(cuMemCreate(&handle, size, &prop, 0));
    SAY(cuMemSetAccess(p, size, &access, 1));
    SAY(cuMemGetAccess(&flags, &here, p));
    SAY(cuMemRetainAllocationHandle(&none, (void *)(uintptr_t)p));
    SAY(cuMemMap(p, size, 0, handle, 0));
    SAY(cuMemUnmap(p, size));
    SAY(cuMemAddressFree(p, size));
    SAY(cuMemGetHandleForAddressRange(handles, p, 2 * (size_t)BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    MUST(cuMemRelease(handle));
    printf("flags: %llu, handle: %llu\n", flags, (unsigned long long)none);
}

static void tell_contents(CUdeviceptr p, int value) {
    static unsigned char host[BYTES];
    int changed = 0;
    MUST(cuMemcpyDtoH_v2(host, p, BYTES));
    for (size_t i = 0; i < BYTES; i++)
        changed += host[i] != value;
    printf("%d bytes changed\n", changed);
}

int main(void) {
    CUdeviceptr block[BLOCKS];
    use_device();
    stream = new_stream();
    for (int b = 0; b < BLOCKS; b++) {
        MUST(cuMemAlloc_v2(&block[b], BYTES));
        MUST(cuMemsetD8_v2(block[b], (unsigned char)(b + 1), BYTES));
    }
    for (int b = 0; b < BLOCKS; b++)
        for (size_t size = PART; size <= BYTES; size *= 4) {
            CUdeviceptr p = block[b] + (size == PART ? PART : 0);
            for_managed(p, size);
            for_host(p, size);
            for_mapped(p, size);
            MUST(cuCtxSynchronize());
        }
    for (int b = 0; b < BLOCKS; b++)
        tell_contents(block[b], b + 1);
    return 0;
}
