#include "driver/real.h"
#include "interpose/record/bounds.h"
#include "interpose/replace/own.h"
#include "interpose/replace/provide.h"

CUresult custom_cuMemAddressReserve(int variant, CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                    unsigned long long flags) {
    if (own_on())
        return own_reserve(variant, ptr, size, alignment, addr, flags);
    if (virtual_handle_reserve(ptr, size, alignment, addr, flags))
        return CUDA_SUCCESS;
    CUresult status = REAL(cuMemAddressReserve, variant)(ptr, size, alignment, addr, flags);
    if (status == CUDA_SUCCESS)
        virtual_handle_reserved(size);
    return status;
}

CUresult custom_cuMemAddressFree(int variant, CUdeviceptr ptr, size_t size) {
    CUresult status;
    bool answered = own_on() ? own_address_free(variant, ptr, size, &status) : virtual_handle_free(ptr, size, &status);
    if (answered)
        return status;
    return bounds_unmapped(ptr, size) ? CUDA_ERROR_INVALID_VALUE : REAL(cuMemAddressFree, variant)(ptr, size);
}

/* The range is of memory that is mapped in a space. */
static bool in_space(CUdeviceptr ptr, size_t size) {
    struct allocation a;
    return provided_at(ptr, &a) && a.kind == MEMORY_VMM && size <= a.start + a.bytes - ptr;
}

/* Devices reach memory of the backend's from the start, as far as they can at all. */
CUresult custom_cuMemSetAccess(int variant, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    CUresult status;
    if (own_on() && own_set_access(variant, ptr, size, desc, count, &status))
        return status;
    if (bounds_unmapped(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (own_on() || !in_space(ptr, size))
        return REAL(cuMemSetAccess, variant)(ptr, size, desc, count);
    bool good = desc && count > 0 && size > 0;
    for (size_t i = 0; good && i < count; i++)
        good = desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult custom_cuMemGetAccess(int variant, unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    struct allocation a;
    if (own_on() && flags && location && own_get_access(flags, location, ptr))
        return CUDA_SUCCESS;
    if (flags && location && provided_at(ptr, &a) && a.kind != MEMORY_VMM) {
        *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE; /* as the driver tells of plain memory */
        return CUDA_SUCCESS;
    }
    if (own_on() || !flags || !location || !in_space(ptr, 1))
        return REAL(cuMemGetAccess, variant)(flags, location, ptr);
    *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
