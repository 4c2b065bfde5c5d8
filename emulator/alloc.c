/* The calls that allocate and free device memory, managed and pinned host memory. */
#include "cost.h"
#include "managed.h"
#include "memory.h"
#include "shared.h"

#include <sys/mman.h>
#include <unistd.h>

enum { PITCH_ALIGN = 512 };

CALL(cuMemAlloc_v2, CALL_CONTEXT | CALL_UNSAFE, CUdeviceptr *out, size_t bytes) {
    struct area made;
    INVALID_IF(!out || bytes == 0);
    TRY(memory_allocate(c, AREA_PLAIN, c->device, NULL, bytes, &made));
    *out = made.start;
    return CUDA_SUCCESS;
}

CALL(cuMemAllocPitch_v2, CALL_CONTEXT | CALL_UNSAFE, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
     unsigned element) {
    INVALID_IF(!pitch || (element != 4 && element != 8 && element != 16) || width == 0 || height == 0);
    size_t aligned = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN, bytes;
    INVALID_IF(aligned < width || __builtin_mul_overflow(aligned, height, &bytes));
    TRY(body_cuMemAlloc_v2(c, out, bytes));
    *pitch = aligned;
    return CUDA_SUCCESS;
}

CALL(cuMemFree_v2, CALL_CONTEXT | CALL_UNSAFE, CUdeviceptr address) {
    if (address == 0)
        return CUDA_SUCCESS;
    INVALID_IF(!memory_free_drained(c, address, AREAS_FREED));
    return CUDA_SUCCESS;
}

CALL(cuMemAllocManaged, CALL_CONTEXT | CALL_UNSAFE, CUdeviceptr *out, size_t bytes, unsigned flags) {
    INVALID_IF(!out || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST));
    uint64_t whole = whole_granules(bytes);
    struct area a = {.start = whole < bytes ? 0 : memory_reserve(whole, GRANULE, 0),
                     .bytes = bytes,
                     .kind = AREA_MANAGED,
                     .device = c->device,
                     .context = c,
                     .flags = flags};
    if (!a.start)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool made = managed_make(&a);
    if (!made || !area_add(&a)) {
        if (made)
            managed_dispose(&a);
        memory_unreserve(a.start, whole);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = a.start;
    return CUDA_SUCCESS;
}

CALL(cuMemGetInfo_v2, CALL_CONTEXT, size_t *available, size_t *total) {
    uint64_t used = shared_memory(c->device->ordinal).used;
    if (available)
        *available = c->device->memory - used;
    if (total)
        *total = c->device->memory;
    return CUDA_SUCCESS;
}

CALL(cuMemGetAddressRange_v2, CALL_CONTEXT, CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
    struct area a;
    if (!area_find(address, &a) || area_is_host(&a))
        return CUDA_ERROR_NOT_FOUND;
    if (start)
        *start = a.start;
    if (bytes)
        *bytes = a.bytes;
    return CUDA_SUCCESS;
}

/* --- host memory --- */

CALL(cuMemHostAlloc, CALL_CONTEXT | CALL_UNSAFE, void **out, size_t bytes, unsigned flags) {
    INVALID_IF(!out || bytes == 0 || flags & ~7u);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = (bytes + page - 1) / page * page;
    void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct area a = {
        .start = (uint64_t)(uintptr_t)at, .bytes = bytes, .kind = AREA_PINNED, .context = c, .flags = flags};
    if (!area_add(&a)) {
        munmap(at, whole);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = at;
    return CUDA_SUCCESS;
}

CALL(cuMemAllocHost_v2, CALL_CONTEXT | CALL_UNSAFE, void **out, size_t bytes) {
    return body_cuMemHostAlloc(c, out, bytes, CU_MEMHOSTALLOC_DEVICEMAP);
}

CALL(cuMemFreeHost, CALL_CONTEXT | CALL_UNSAFE, void *p) {
    INVALID_IF(!memory_free_drained(c, (uint64_t)(uintptr_t)p, 1u << AREA_PINNED));
    return CUDA_SUCCESS;
}

CALL(cuMemHostRegister, CALL_CONTEXT | CALL_UNSAFE, void *p, size_t bytes, unsigned flags) {
    INVALID_IF(!p || bytes == 0 || flags & ~15u || memory_holds((uint64_t)(uintptr_t)p, 1));
    struct area a = {
        .start = (uint64_t)(uintptr_t)p, .bytes = bytes, .kind = AREA_REGISTERED, .context = c, .flags = flags};
    return area_add(&a) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
SAME(cuMemHostRegister_v2, cuMemHostRegister);

CALL(cuMemHostUnregister, CALL_CONTEXT | CALL_UNSAFE, void *p) {
    bool freed = memory_free_drained(c, (uint64_t)(uintptr_t)p, 1u << AREA_REGISTERED);
    INVALID_IF(!freed && memory_holds((uint64_t)(uintptr_t)p, 1));
    return freed ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CALL(cuMemHostGetDevicePointer_v2, CALL_CONTEXT, CUdeviceptr *out, void *p, unsigned flags) {
    struct area a;
    INVALID_IF(flags || !area_find((uint64_t)(uintptr_t)p, &a) || !area_is_host(&a));
    TELL(out, (CUdeviceptr)(uintptr_t)p);
}
