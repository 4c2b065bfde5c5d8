/* Stream-ordered memory and its pools. Freed memory is credited when the free is issued: the stream's order keeps it
 * apart from what follows. */
#include "base/hash.h"
#include "interpose/capture.h"
#include "interpose/memory.h"
#include "interpose/session.h"

/* pool handle -> device + 2, for pools the program made itself */
static struct hash pools = HASH_EMPTY;

static int pool_device(CUmemoryPool pool) {
    uintptr_t known = (uintptr_t)hash_get(&pools, (uint64_t)(uintptr_t)pool);
    return known ? (int)known - 2 : session_device();
}

/* Captured, an allocation becomes a node: memory is taken when the graph is instantiated, and charged there. */
static bool captured(int variant, CUstream stream) {
    return capture_any() && capture_holds(stream_key(variant, stream));
}

static bool open(struct claim *c, int device, int variant, CUstream stream, size_t bytes) {
    bool node = session_on && captured(variant, stream);
    return claim_open(c, device, node ? MEMORY_GRAPH : MEMORY_ASYNC, node ? 0 : bytes);
}

CUresult custom_cuMemAllocAsync(int variant, CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    struct claim c;
    if (open(&c, session_device(), variant, hStream, bytesize))
        claim_close(&c, REAL(cuMemAllocAsync, variant)(dptr, bytesize, hStream), dptr, bytesize);
    return c.status;
}

CUresult custom_cuMemAllocFromPoolAsync(int variant, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                        CUstream hStream) {
    struct claim c;
    if (open(&c, pool_device(pool), variant, hStream, bytesize))
        claim_close(&c, REAL(cuMemAllocFromPoolAsync, variant)(dptr, bytesize, pool, hStream), dptr, bytesize);
    return c.status;
}

/* A captured free is a node: the memory stays until the graph runs. */
CUresult custom_cuMemFreeAsync(int variant, CUdeviceptr dptr, CUstream hStream) {
    struct parting p = {0};
    if (session_on && !captured(variant, hStream))
        parting_open(&p, dptr);
    return parting_close(&p, REAL(cuMemFreeAsync, variant)(dptr, hStream));
}

CUresult custom_cuMemPoolCreate(int variant, CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    CUresult status = REAL(cuMemPoolCreate, variant)(pool, poolProps);
    if (status == CUDA_SUCCESS && session_on) {
        bool device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        int where = device ? poolProps->location.id : DEVICE_NONE;
        hash_put(&pools, (uint64_t)(uintptr_t)*pool, (void *)(uintptr_t)(where + 2), NULL);
    }
    return status;
}

CUresult custom_cuMemPoolDestroy(int variant, CUmemoryPool pool) {
    hash_take(&pools, (uint64_t)(uintptr_t)pool);
    return REAL(cuMemPoolDestroy, variant)(pool);
}
