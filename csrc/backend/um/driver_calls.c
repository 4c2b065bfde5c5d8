/* The driver's calls on managed memory, in the form that the driver at hand has. */
#include "backend/um/um.h"
#include "driver/real.h"

static CUmemLocation location(int32_t device) {
    return device == DEVICE_NONE ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}
                                 : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

/* Before CUDA 12.2 a place is a device's number. */
static CUdevice place(int32_t device) {
    return device == DEVICE_NONE ? CU_DEVICE_CPU : device;
}

bool um_prefetch(addr_t start, uint64_t bytes, int32_t device, CUstream stream) {
    CUresult status = REAL(cuMemPrefetchAsync_v2, 0)(start, bytes, location(device), 0, stream);
    if (status == CUDA_ERROR_NOT_SUPPORTED)
        status = REAL(cuMemPrefetchAsync, 0)(start, bytes, place(device), stream);
    return pager_done(status, "a prefetch", bytes);
}

static bool cannot_discard;

bool um_can_discard(void) {
    return !__atomic_load_n(&cannot_discard, __ATOMIC_RELAXED);
}

/* The place is not given back: the driver takes it without a copy when it needs it. What was sent to the host would
 * come back over the link. A driver before CUDA 13 cannot discard: then the bytes move. */
bool um_discard(addr_t start, uint64_t bytes, CUstream stream) {
    CUdeviceptr starts[] = {start};
    size_t sizes[] = {bytes};
    CUresult status = REAL(cuMemDiscardBatchAsync, 0)(starts, sizes, 1, 0, stream);
    if (status == CUDA_ERROR_NOT_SUPPORTED) {
        __atomic_store_n(&cannot_discard, true, __ATOMIC_RELAXED);
        return um_prefetch(start, bytes, DEVICE_NONE, stream);
    }
    return pager_done(status, "a discard", bytes);
}

static bool advise(addr_t start, uint64_t bytes, CUmem_advise advice, int32_t device) {
    CUresult status = REAL(cuMemAdvise_v2, 0)(start, bytes, advice, location(device));
    if (status == CUDA_ERROR_NOT_SUPPORTED)
        status = REAL(cuMemAdvise, 0)(start, bytes, advice, place(device));
    return pager_done(status, "advice", bytes);
}

bool um_advise_mostly_read(addr_t start, uint64_t bytes, int32_t device, bool mostly) {
    return advise(start, bytes, mostly ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY, device);
}

bool um_advise_in_place(addr_t start, uint64_t bytes, int32_t device, bool in_place) {
    if (in_place)
        return advise(start, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, DEVICE_NONE) &&
               advise(start, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
    bool unmapped = advise(start, bytes, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device);
    return advise(start, bytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, DEVICE_NONE) && unmapped;
}
