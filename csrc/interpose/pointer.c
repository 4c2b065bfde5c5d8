/* What the program asks about an address of memory that was provided: it is told of the memory it asked for, also where
 * the driver would not know at this moment. */
#include <string.h>

#include "base/hot.h"
#include "base/log.h"
#include "driver/real.h"
#include "interpose/ipc.h"
#include "interpose/pool.h"
#include "interpose/provide.h"

/* status: what the driver said; it may not know the address, where its memory is being mapped anew. */
static bool find(CUresult status, CUdeviceptr address, struct allocation *a) {
    bool asked = status == CUDA_SUCCESS || status == CUDA_ERROR_INVALID_VALUE || status == CUDA_ERROR_NOT_FOUND;
    return asked && (provided_at(address, a) || ipc_imported_at(address, a));
}

/* Buffers are numbered by the driver from 1. */
#define OURS (1ull << 62)

#define PUT(type, value)                                                                                               \
    do {                                                                                                               \
        type answer_ = (value);                                                                                        \
        memcpy(data, &answer_, sizeof answer_);                                                                        \
    } while (0)

/* Not of a context, for the program: what comes from a pool, or lies behind a handle. */
static bool of_device(const struct allocation *a) {
    return a->kind == MEMORY_ASYNC || a->kind == MEMORY_VMM;
}

enum answer { ANSWERED, ABSENT, UNCHANGED };

/* Answers in the place of the driver. ABSENT: plain memory has no such attribute. UNCHANGED: the driver's answer is
 * plain memory's. */
static enum answer disguise(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                            const struct allocation *a) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        PUT(unsigned, 0);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        PUT(unsigned, CU_MEMORYTYPE_DEVICE);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        PUT(CUdeviceptr, address);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        PUT(void *, NULL);
        return ABSENT;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, a->device);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (!of_device(a) && !a->context)
            return UNCHANGED;
        PUT(CUcontext, of_device(a) ? NULL : (CUcontext)(uintptr_t)a->context);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        PUT(CUmemoryPool, pool_of(a->start));
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        PUT(unsigned long long, OURS | a->id);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        PUT(CUdeviceptr, a->start);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        PUT(size_t, a->bytes);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        if (a->kind != MEMORY_VMM)
            return UNCHANGED;
        PUT(CUdeviceptr, a->start);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        if (a->kind != MEMORY_VMM)
            return UNCHANGED;
        PUT(size_t, a->bytes);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        PUT(int, 1);
        return ANSWERED;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        if (!ipc_can_share(a))
            return UNCHANGED;
        PUT(unsigned, 1);
        return ANSWERED;
    default:
        return UNCHANGED;
    }
}

static SELDOM CUresult corrected(CUresult status, void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct allocation a;
    if (!data || !find(status, ptr, &a))
        return status;
    enum answer answer = disguise(data, attribute, ptr, &a);
    return answer == ANSWERED ? CUDA_SUCCESS : answer == ABSENT ? CUDA_ERROR_INVALID_VALUE : status;
}

/* Triton asks for the device's address of every address it launches with: of any memory, the driver's answer is right.
 */
HOT CUresult custom_cuPointerGetAttribute(int variant, void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    CUresult status = REAL(cuPointerGetAttribute, variant)(data, attribute, ptr);
    bool right = status == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    return __builtin_expect(right, 1) ? status : corrected(status, data, attribute, ptr);
}

CUresult custom_cuPointerGetAttributes(int variant, unsigned int numAttributes, CUpointer_attribute *attributes,
                                       void **data, CUdeviceptr ptr) {
    struct allocation a;
    CUresult status = REAL(cuPointerGetAttributes, variant)(numAttributes, attributes, data, ptr);
    if (status == CUDA_SUCCESS && find(status, ptr, &a))
        for (unsigned i = 0; i < numAttributes; i++)
            disguise(data[i], attributes[i], ptr, &a);
    return status;
}

CUresult custom_cuMemGetAddressRange_v2(int variant, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    struct allocation a;
    CUresult status = REAL(cuMemGetAddressRange_v2, variant)(pbase, psize, dptr);
    if (!find(status, dptr, &a))
        return status;
    if (pbase)
        *pbase = a.start;
    if (psize)
        *psize = a.bytes;
    return CUDA_SUCCESS;
}

static void tell_others(void) {
    static bool told;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_warn("another process or device cannot use memory that moves: name the library that allocates it in "
                 "ULMS_PLAIN, or set ULMS_BACKEND=observe");
}

/* The driver may give one, for what lies there now. */
CUresult custom_cuMemGetHandleForAddressRange(int variant, void *handle, CUdeviceptr dptr, size_t size,
                                              CUmemRangeHandleType handleType, unsigned long long flags) {
    struct allocation a;
    if (!provided_at(dptr, &a))
        return REAL(cuMemGetHandleForAddressRange, variant)(handle, dptr, size, handleType, flags);
    if (size > a.start + a.bytes - dptr)
        return CUDA_ERROR_INVALID_VALUE;
    tell_others();
    return CUDA_ERROR_NOT_SUPPORTED;
}
