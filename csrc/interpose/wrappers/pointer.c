#include "base/hot.h"
#include "base/log.h"
#include "driver/real.h"
#include "interpose/replace/attribute.h"
#include "interpose/replace/provide.h"

/* Triton asks for the device's address of every address it launches with: of any memory, the driver's answer is right.
 */
HOT CUresult custom_cuPointerGetAttribute(int variant, void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    CUresult status = REAL(cuPointerGetAttribute, variant)(data, attribute, ptr);
    bool right = status == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    return __builtin_expect(right, 1) ? status : attribute_corrected(status, data, attribute, ptr);
}

CUresult custom_cuPointerGetAttributes(int variant, unsigned int numAttributes, CUpointer_attribute *attributes,
                                       void **data, CUdeviceptr ptr) {
    struct allocation a;
    CUresult status = REAL(cuPointerGetAttributes, variant)(numAttributes, attributes, data, ptr);
    if (status == CUDA_SUCCESS && attribute_find(status, ptr, &a))
        for (unsigned i = 0; i < numAttributes; i++)
            attribute_disguise(data[i], attributes[i], ptr, &a);
    return status;
}

CUresult custom_cuMemGetAddressRange_v2(int variant, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    struct allocation a;
    CUresult status = REAL(cuMemGetAddressRange_v2, variant)(pbase, psize, dptr);
    if (!attribute_find(status, dptr, &a))
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
