#include "backend/vmm.h"
#include "base/log.h"
#include "observe/stats.h"

static bool is(CUresult status, const char *call) {
    if (status == CUDA_SUCCESS)
        return true;
    stats_add(COUNT_move_failures, 1);
    log_debug("%s was refused with error %d", call, (int)status);
    return false;
}

bool vmm_map(addr_t at, CUmemGenericAllocationHandle handle) {
    return is(REAL(cuMemMap, 0)(at, page_bytes, 0, handle, 0), "cuMemMap");
}

bool vmm_unmap(addr_t start, uint64_t bytes) {
    return is(REAL(cuMemUnmap, 0)(start, bytes), "cuMemUnmap");
}

bool vmm_allow(addr_t start, uint64_t bytes, const struct vmm_users *users) {
    return is(REAL(cuMemSetAccess, 0)(start, bytes, users->access, users->count), "cuMemSetAccess");
}

bool vmm_create(CUmemGenericAllocationHandle *handle, CUmemLocation location) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location};
    return is(REAL(cuMemCreate, 0)(handle, page_bytes, &prop, 0), "cuMemCreate");
}

void vmm_release(CUmemGenericAllocationHandle handle) {
    is(REAL(cuMemRelease, 0)(handle), "cuMemRelease");
}

addr_t vmm_reserve(uint64_t bytes) {
    CUdeviceptr start = 0;
    return is(REAL(cuMemAddressReserve, 0)(&start, bytes, page_bytes, 0, 0), "cuMemAddressReserve") ? start : 0;
}

void vmm_unreserve(addr_t start, uint64_t bytes) {
    is(REAL(cuMemAddressFree, 0)(start, bytes), "cuMemAddressFree");
}

bool vmm_wait(CUstream stream) {
    return is(REAL(cuStreamSynchronize, 0)(stream), "cuStreamSynchronize");
}

bool vmm_copy(addr_t to, addr_t from, uint64_t bytes, CUstream stream) {
    return is(REAL(cuMemcpyAsync, 0)(to, from, bytes, stream), "cuMemcpyAsync");
}
