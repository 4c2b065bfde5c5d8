/* Texture objects: a kernel is handed a number, and reads the memory behind it. */
#include "interpose/record/wrap.h"

/* Arrays have no address, and never move. */
static CUdeviceptr memory_of(const CUDA_RESOURCE_DESC *d) {
    return d->resType == CU_RESOURCE_TYPE_LINEAR    ? d->res.linear.devPtr
           : d->resType == CU_RESOURCE_TYPE_PITCH2D ? d->res.pitch2D.devPtr
                                                    : 0;
}

CUresult custom_cuTexObjectCreate(int variant, CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                                  const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
    CUresult status = REAL(cuTexObjectCreate, variant)(pTexObject, pResDesc, pTexDesc, pResViewDesc);
    if (status == CUDA_SUCCESS)
        wrap_hide(memory_of(pResDesc));
    return status;
}
