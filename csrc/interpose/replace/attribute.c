#include "interpose/replace/attribute.h"

#include <string.h>

#include "base/hot.h"
#include "interpose/replace/ipc.h"
#include "interpose/replace/provide.h"
#include "interpose/wrappers/pool.h"

bool attribute_find(CUresult status, CUdeviceptr address, struct allocation *a) {
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

/* ABSENT: plain memory has no such attribute. UNCHANGED: the driver's answer is plain memory's. */
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

SELDOM CUresult attribute_corrected(CUresult status, void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct allocation a;
    if (!data || !attribute_find(status, ptr, &a))
        return status;
    enum answer answer = disguise(data, attribute, ptr, &a);
    return answer == ANSWERED ? CUDA_SUCCESS : answer == ABSENT ? CUDA_ERROR_INVALID_VALUE : status;
}

void attribute_disguise(void *data, CUpointer_attribute attribute, CUdeviceptr address, const struct allocation *a) {
    disguise(data, attribute, address, a);
}
