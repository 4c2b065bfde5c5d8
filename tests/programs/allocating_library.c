/* A library that allocates: what its file is called decides what it gets. */
#include "cuda/abi.h"

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);

CUdeviceptr library_allocate(size_t bytes);

CUdeviceptr library_allocate(size_t bytes) {
    CUdeviceptr p = 0;
    if (cuMemAlloc_v2(&p, bytes))
        p = 0;
    return p;
}
