/* The parts in which a program asks about its memory, or for handles of it. */
#include "memory.h"

USE(cuCtxSynchronize)
USE(cuMemGetInfo_v2)
USE(cuMemAlloc_v2)
USE(cuMemAllocPitch_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemPoolGetAttribute)
USE(cuMemPoolSetAttribute)
USE(cuDeviceGetDefaultMemPool)
USE(cuMemGetAddressRange_v2)
USE(cuPointerGetAttribute)
USE(cuPointerGetAttributes)
USE(cuMemRetainAllocationHandle)
USE(cuIpcGetMemHandle)
USE(cuMemGetHandleForAddressRange)
USE(cuMulticastBindAddr)

static uint64_t pool_bytes(CUmemoryPool pool, CUmemPool_attribute attribute) {
    uint64_t bytes = 0;
    MUST(cuMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
}

static void tell_pointer(CUdeviceptr p, size_t offset, CUmemoryPool own) {
    unsigned managed = 9, type = 9;
    int ordinal = -9;
    CUdeviceptr start = 0, base = 0;
    size_t bytes = 0, range = 0;
    CUcontext its = (CUcontext)1;
    CUmemoryPool pool = (CUmemoryPool)1;
    void *host = (void *)1;
    MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + offset));
    MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + offset));
    MUST(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p + offset));
    MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + offset));
    MUST(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + offset));
    MUST(cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_CONTEXT, p + offset));
    MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + offset));
    MUST(cuMemGetAddressRange_v2(&base, &range, p + offset));
    printf("managed %u type %u device %d start %d bytes %zu context %s pool %s host %d base %d range %zu\n", managed,
           type, ordinal, start == p, bytes,
           its == context ? "own"
           : its          ? "other"
                          : "none",
           pool == own ? "own"
           : pool      ? "other"
                       : "none",
           (int)cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + offset), base == p, range);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&type, &managed, &host, &bytes};
    MUST(cuPointerGetAttributes(4, asked, answers, p + offset));
    CUmemGenericAllocationHandle handle;
    int retained = (int)cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(p + offset));
    printf("at once: type %u managed %u host %p bytes %zu retained %d\n", type, managed, host, bytes, retained);
}

void attributes(void) {
    CUmemoryPool own;
    CUdeviceptr p, q, r;
    size_t pitch, before, after, total, again;
    MUST(cuDeviceGetDefaultMemPool(&own, 0));
    MUST(cuMemGetInfo_v2(&before, &total));
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAllocAsync(&q, 6 * MIB, NULL));
    MUST(cuMemAllocPitch_v2(&r, &pitch, 512, 4096, 16));
    printf("is %s %s %s\n", held(p), held(q), held(r));
    MUST(cuMemGetInfo_v2(&after, &again));
    printf("total %zu again %d taken %zu\n", total, total == again, before - after);
    tell_pointer(p, 0, own);
    tell_pointer(q, 6 * MIB - 1, own);
    tell_pointer(r, 777, own);
    static const CUmemPool_attribute numbers[] = {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
                                                  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                  CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            printf("%llu ", (unsigned long long)pool_bytes(own, numbers[i]));
        printf("in the pool\n");
        uint64_t zero = 0;
        if (round == 0) {
            MUST(cuMemFreeAsync(q, NULL));
            MUST(cuCtxSynchronize());
        } else if (round == 1) {
            MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
            MUST(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
        }
    }
    MUST(cuMemFree_v2(p));
    MUST(cuMemFree_v2(r));
    MUST(cuMemGetInfo_v2(&after, &total));
    printf("given back %d\n", before == after);
    printf("freed twice: %d\n", (int)cuMemFree_v2(p));
}

void ipc(void) {
    CUipcMemHandle handle;
    CUdeviceptr p, q;
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAlloc_v2(&q, 4096));
    for (int i = 0; i < 2; i++)
        printf("is %d\n", (int)cuIpcGetMemHandle(&handle, p));
    MUST(cuIpcGetMemHandle(&handle, q));
}

/* The second is of plain memory: the emulated driver has no such call. */
void multicast(void) {
    CUdeviceptr p, q;
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAlloc_v2(&q, 4096));
    printf("is %d\n", (int)cuMulticastBindAddr(0, 0, p, 2 * MIB, 0));
    printf("is %d\n", (int)cuMulticastBindAddr(0, 0, q, 4096, 0));
}

void dma(void) {
    CUdeviceptr p, q;
    int file;
    MUST(cuMemAlloc_v2(&p, 4 * MIB));
    MUST(cuMemAlloc_v2(&q, 4096));
    for (int i = 0; i < 2; i++)
        printf("is %d\n", (int)cuMemGetHandleForAddressRange(&file, p, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    MUST(cuMemGetHandleForAddressRange(&file, q, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}
