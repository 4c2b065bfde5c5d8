/* The calls that allocate and free device memory, managed and pinned host memory. */
#include "cost.h"
#include "managed.h"
#include "memory.h"
#include "shared.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PITCH_ALIGN = 512 };

static CUresult allocate(CUcontext c, CUdeviceptr *out, size_t bytes) {
    struct area made;
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_allocate(c, AREA_PLAIN, c->device, NULL, bytes, &made);
    if (result == CUDA_SUCCESS)
        *out = made.start;
    return result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return allocate(c, out, bytes);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    if (!pitch || (element != 4 && element != 8 && element != 16) || width == 0 || height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t aligned = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN, bytes;
    if (aligned < width || __builtin_mul_overflow(aligned, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate(c, out, bytes);
    if (result == CUDA_SUCCESS)
        *pitch = aligned;
    return result;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    if (address == 0)
        return CUDA_SUCCESS;
    context_drain(c);
    bool freed = memory_free(address, 1u << AREA_PLAIN | 1u << AREA_MANAGED | 1u << AREA_POOL | 1u << AREA_GRAPH);
    pthread_mutex_unlock(&c->lock);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    if (!out || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t whole = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    struct area a = {.start = whole < bytes ? 0 : memory_reserve(whole, GRANULE, 0),
                     .bytes = bytes,
                     .kind = AREA_MANAGED,
                     .device = c->device,
                     .context = c,
                     .id = area_new_id(),
                     .flags = flags};
    if (!a.start)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!managed_make(&a)) {
        memory_unreserve(a.start, whole);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!area_add(&a)) {
        managed_dispose(&a);
        memory_unreserve(a.start, whole);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = a.start;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    BEGIN(CALL_CONTEXT);
    uint64_t used = shared_memory(c->device->ordinal).used;
    if (available)
        *available = c->device->memory - used;
    if (total)
        *total = c->device->memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
    BEGIN(CALL_CONTEXT);
    struct area a;
    if (!area_find(address, &a) || a.kind == AREA_PINNED || a.kind == AREA_REGISTERED)
        return CUDA_ERROR_NOT_FOUND;
    if (start)
        *start = a.start;
    if (bytes)
        *bytes = a.bytes;
    return CUDA_SUCCESS;
}

/* --- host memory --- */

static CUresult allocate_host(CUcontext c, void **out, size_t bytes, unsigned flags) {
    if (!out || bytes == 0 || flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = (bytes + page - 1) / page * page;
    void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct area a = {.start = (uint64_t)(uintptr_t)at,
                     .bytes = bytes,
                     .kind = AREA_PINNED,
                     .context = c,
                     .id = area_new_id(),
                     .flags = flags};
    if (!area_add(&a)) {
        munmap(at, whole);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = at;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return allocate_host(c, out, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return allocate_host(c, out, bytes, flags);
}

EXPORT CUresult cuMemFreeHost(void *p) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    context_drain(c);
    bool freed = memory_free((uint64_t)(uintptr_t)p, 1u << AREA_PINNED);
    pthread_mutex_unlock(&c->lock);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult register_host(CUcontext c, void *p, size_t bytes, unsigned flags) {
    if (!p || bytes == 0 || flags & ~15u || memory_holds((uint64_t)(uintptr_t)p, 1))
        return CUDA_ERROR_INVALID_VALUE;
    struct area a = {.start = (uint64_t)(uintptr_t)p,
                     .bytes = bytes,
                     .kind = AREA_REGISTERED,
                     .context = c,
                     .id = area_new_id(),
                     .flags = flags};
    return area_add(&a) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

EXPORT CUresult cuMemHostRegister(void *p, size_t bytes, unsigned flags) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return register_host(c, p, bytes, flags);
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return register_host(c, p, bytes, flags);
}

EXPORT CUresult cuMemHostUnregister(void *p) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    context_drain(c);
    bool freed = memory_free((uint64_t)(uintptr_t)p, 1u << AREA_REGISTERED);
    pthread_mutex_unlock(&c->lock);
    return freed                                     ? CUDA_SUCCESS
           : memory_holds((uint64_t)(uintptr_t)p, 1) ? CUDA_ERROR_INVALID_VALUE
                                                     : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool host_area(const void *p, struct area *a) {
    return area_find((uint64_t)(uintptr_t)p, a) && (a->kind == AREA_PINNED || a->kind == AREA_REGISTERED);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags) {
    BEGIN(CALL_CONTEXT);
    struct area a;
    if (!out || flags || !host_area(p, &a))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *p) {
    BEGIN(CALL_CONTEXT);
    struct area a;
    if (!flags || !host_area(p, &a))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = a.flags;
    return CUDA_SUCCESS;
}
