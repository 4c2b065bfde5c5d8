/* Plain, pitched and managed memory. */

#include "driver/context.h"
#include "driver/real.h"
#include "interpose/replace/deferred_free.h"
#include "interpose/replace/provide.h"

/* The driver may have no memory left for what pages could still make room for. */
static bool allocate_small(struct charge *c, int variant, CUdeviceptr *dptr, size_t bytes) {
    if (!provide_stays_plain(bytes) || !charge_open(c, context_device(), MEMORY_PLAIN, bytes))
        return false;
    charge_close(c, REAL(cuMemAlloc_v2, variant)(dptr, bytes), dptr, bytes);
    return c->status == CUDA_SUCCESS;
}

CUresult custom_cuMemAlloc_v2(int variant, CUdeviceptr *dptr, size_t bytesize) {
    struct charge c;
    if (allocate_small(&c, variant, dptr, bytesize))
        return c.status;
    if (!provide(&c, MEMORY_PLAIN, bytesize, dptr) && charge_open(&c, context_device(), MEMORY_PLAIN, bytesize))
        charge_close(&c, RELIEVED(&c, REAL(cuMemAlloc_v2, variant)(dptr, bytesize)), dptr, bytesize);
    return c.status;
}

CUresult custom_cuMemAllocManaged(int variant, CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    struct charge c;
    if (charge_open_managed(&c, context_device(), MEMORY_MANAGED, bytesize))
        charge_close(&c, REAL(cuMemAllocManaged, variant)(dptr, bytesize, flags), dptr, bytesize);
    return c.status;
}

/* The pitch is the driver's choice: what it adds is charged when it is known, or the memory is given back. */
CUresult custom_cuMemAllocPitch_v2(int variant, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                   unsigned int ElementSizeBytes) {
    struct charge c;
    if (provide_pitch(&c, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes) ||
        !charge_open(&c, context_device(), MEMORY_PITCH, provide_pitched(WidthInBytes, Height)))
        return c.status;
    CUresult status =
        RELIEVED(&c, REAL(cuMemAllocPitch_v2, variant)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
    charge_close(&c, status, dptr, status == CUDA_SUCCESS ? (uint64_t)*pPitch * Height : 0);
    return c.status;
}

/* The driver's free of memory from a pool waits for nothing. */
static bool waits(const struct allocation *freed) {
    return freed->managed || (freed->kind != MEMORY_ASYNC && freed->kind != MEMORY_GRAPH);
}

CUresult custom_cuMemFree_v2(int variant, CUdeviceptr dptr) {
    struct dealloc p;
    if (context_is_none()) /* nothing goes: the driver says why */
        return REAL(cuMemFree_v2, variant)(dptr);
    dealloc_open(&p, dptr);
    if (!p.recorded && deferred_holds(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = dealloc_close(&p, memory_free(variant, dptr, p.recorded ? p.gone.context : context_current()));
    if (p.recorded && status == CUDA_SUCCESS && waits(&p.gone))
        deferred_waited(p.gone.context);
    return status;
}
