/* Pinned host memory. What kernels find there may be addresses, which the host stores without a call: a backend that
 * has to know of addresses has it in the ledger. */
#include "backend/backend.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/memory.h"
#include "interpose/record/bounds.h"

static CUresult pinned(CUresult status, const void *start, size_t bytes) {
    if (status == CUDA_SUCCESS && session_on && session.backend->pin_reachable)
        memory_note((addr_t)(uintptr_t)start, bytes, MEMORY_HOST, context_current());
    return status;
}

CUresult custom_cuMemAllocHost_v2(int variant, void **pp, size_t bytesize) {
    CUresult status = REAL(cuMemAllocHost_v2, variant)(pp, bytesize);
    return pinned(status, status == CUDA_SUCCESS ? *pp : NULL, bytesize);
}

CUresult custom_cuMemHostAlloc(int variant, void **pp, size_t bytesize, unsigned int Flags) {
    CUresult status = REAL(cuMemHostAlloc, variant)(pp, bytesize, Flags);
    return pinned(status, status == CUDA_SUCCESS ? *pp : NULL, bytesize);
}

CUresult custom_cuMemHostRegister(int variant, void *p, size_t bytesize, unsigned int Flags) {
    if (bounds_replaced((addr_t)(uintptr_t)p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    return pinned(REAL(cuMemHostRegister, variant)(p, bytesize, Flags), p, bytesize);
}

CUresult custom_cuMemHostRegister_v2(int variant, void *p, size_t bytesize, unsigned int Flags) {
    if (bounds_replaced((addr_t)(uintptr_t)p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    return pinned(REAL(cuMemHostRegister_v2, variant)(p, bytesize, Flags), p, bytesize);
}

/* Only what was entered leaves: the address may be any. */
static void open(struct dealloc *p, const void *start) {
    struct allocation a;
    addr_t at = (addr_t)(uintptr_t)start;
    bool entered = session_on && ledger_find(session.ledger, at, &a) && a.kind == MEMORY_HOST;
    *p = (struct dealloc){0};
    if (entered)
        dealloc_open(p, at);
}

CUresult custom_cuMemFreeHost(int variant, void *p) {
    struct dealloc dealloc;
    if (bounds_replaced((addr_t)(uintptr_t)p, 1))
        return CUDA_ERROR_INVALID_VALUE;
    open(&dealloc, p);
    return dealloc_close(&dealloc, REAL(cuMemFreeHost, variant)(p));
}

CUresult custom_cuMemHostUnregister(int variant, void *p) {
    struct dealloc dealloc;
    if (bounds_replaced((addr_t)(uintptr_t)p, 1))
        return CUDA_ERROR_INVALID_VALUE;
    open(&dealloc, p);
    return dealloc_close(&dealloc, REAL(cuMemHostUnregister, variant)(p));
}
