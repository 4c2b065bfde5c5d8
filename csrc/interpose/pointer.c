/* What the program asks about an address of memory that was provided: it is told of the memory it asked for. */
#include <string.h>

#include "base/log.h"
#include "interpose/pool.h"
#include "interpose/provide.h"
#include "interpose/session.h"

static bool find(CUdeviceptr address, struct allocation *a) {
    return session_on && ledger_find(session.ledger, address, a) && provided(a);
}

#define PUT(type, value)                                                                                               \
    do {                                                                                                               \
        type answer_ = (value);                                                                                        \
        memcpy(data, &answer_, sizeof answer_);                                                                        \
    } while (0)

/* Changes what the driver answered, or would have answered. False: plain memory has no such attribute. */
static bool disguise(void *data, CUpointer_attribute attribute, const struct allocation *a) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        PUT(unsigned, 0);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        PUT(unsigned, CU_MEMORYTYPE_DEVICE);
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        PUT(void *, NULL);
        return false;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, a->device);
        return true;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        if (a->kind == MEMORY_ASYNC) /* a pool is of a device, not of a context */
            PUT(CUcontext, NULL);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        PUT(CUmemoryPool, pool_of(a->start));
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        PUT(CUdeviceptr, a->start);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        PUT(size_t, a->bytes);
        return true;
    default:
        return true;
    }
}

CUresult custom_cuPointerGetAttribute(int variant, void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct allocation a;
    CUresult status = REAL(cuPointerGetAttribute, variant)(data, attribute, ptr);
    if (status == CUDA_SUCCESS && find(ptr, &a) && !disguise(data, attribute, &a))
        status = CUDA_ERROR_INVALID_VALUE;
    return status;
}

CUresult custom_cuPointerGetAttributes(int variant, unsigned int numAttributes, CUpointer_attribute *attributes,
                                       void **data, CUdeviceptr ptr) {
    struct allocation a;
    CUresult status = REAL(cuPointerGetAttributes, variant)(numAttributes, attributes, data, ptr);
    if (status == CUDA_SUCCESS && find(ptr, &a))
        for (unsigned i = 0; i < numAttributes; i++)
            disguise(data[i], attributes[i], &a);
    return status;
}

CUresult custom_cuMemGetAddressRange_v2(int variant, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    struct allocation a;
    CUresult status = REAL(cuMemGetAddressRange_v2, variant)(pbase, psize, dptr);
    if (status != CUDA_SUCCESS || !find(dptr, &a))
        return status;
    if (pbase)
        *pbase = a.start;
    if (psize)
        *psize = a.bytes;
    return status;
}

CUresult custom_cuIpcGetMemHandle(int variant, CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    static bool told;
    struct allocation a;
    CUresult status = REAL(cuIpcGetMemHandle, variant)(pHandle, dptr);
    if (status != CUDA_SUCCESS && find(dptr, &a) && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_warn("another process cannot use managed memory: name the library that allocates it in ULMS_PLAIN, or set "
                 "ULMS_BACKEND=observe");
    return status;
}
