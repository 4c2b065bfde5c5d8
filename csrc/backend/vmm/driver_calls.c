#include <fcntl.h>

#include "backend/vmm/vmm.h"
#include "base/log.h"
#include "driver/real.h"
#include "observe/stats.h"

static bool is(CUresult status, const char *call) {
    if (status == CUDA_SUCCESS)
        return true;
    stats_add(COUNT_move_failures, 1);
    log_debug("%s was refused with error %d", call, (int)status);
    return false;
}

bool vmm_map(addr_t at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
    return is(REAL(cuMemMap, 0)(at, bytes, 0, handle, 0), "cuMemMap");
}

bool vmm_unmap(addr_t start, uint64_t bytes) {
    return is(REAL(cuMemUnmap, 0)(start, bytes), "cuMemUnmap");
}

bool vmm_unmap_again(addr_t start, uint64_t bytes) {
    bool unmapped = vmm_unmap(start, bytes);
    for (int i = 1; !unmapped && i < VMM_TRIES; i++) {
        thread_sleep(VMM_TRY_US);
        unmapped = vmm_unmap(start, bytes);
    }
    return unmapped;
}

bool vmm_allow(addr_t start, uint64_t bytes, const struct vmm_users *users) {
    return is(REAL(cuMemSetAccess, 0)(start, bytes, users->access, users->count), "cuMemSetAccess");
}

bool vmm_create(CUmemGenericAllocationHandle *handle, uint64_t bytes, CUmemLocation location, bool exportable) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location};
    if (exportable)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return is(REAL(cuMemCreate, 0)(handle, bytes, &prop, 0), "cuMemCreate");
}

/* A program that the program starts has no use for it. */
int vmm_export_file(CUmemGenericAllocationHandle handle) {
    int file = -1;
    CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!is(REAL(cuMemExportToShareableHandle, 0)(&file, handle, type, 0), "cuMemExportToShareableHandle"))
        return -1;
    fcntl(file, F_SETFD, FD_CLOEXEC);
    return file;
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

bool vmm_is_lost(CUresult status) {
    return status >= CUDA_ERROR_ILLEGAL_ADDRESS && status < CUDA_ERROR_UNKNOWN;
}
