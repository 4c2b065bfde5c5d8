/* A library that allocates: what its file is called decides what it gets. */
#include "cuda/abi.h"

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags);
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);

CUdeviceptr library_allocate(size_t bytes);
CUresult library_map(size_t bytes, int types, CUmemGenericAllocationHandle *handle, CUdeviceptr *p);

CUdeviceptr library_allocate(size_t bytes) {
    CUdeviceptr p = 0;
    if (cuMemAlloc_v2(&p, bytes))
        p = 0;
    return p;
}

/* Behind a handle of these types, with addresses of its own. */
CUresult library_map(size_t bytes, int types, CUmemGenericAllocationHandle *handle, CUdeviceptr *p) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = (CUmemAllocationHandleType)types,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult status = cuMemCreate(handle, bytes, &prop, 0);
    if (!status)
        status = cuMemAddressReserve(p, bytes, 0, 0, 0);
    return status ? status : cuMemMap(*p, bytes, 0, *handle, 0);
}
