/* Calls for managed and for mapped memory, which the driver refuses on plain memory: also where a backend holds that as
 * the one or the other. */
#include "driver/real.h"
#include "driver/session.h"
#include "interpose/account/memory.h"
#include "interpose/record/bounds.h"

/* A call on one range. */
#define MANAGED_ONLY(symbol, start, bytes, stream, parameters, arguments)                                              \
    CUresult custom_##symbol parameters {                                                                              \
        return bounds_replaced(start, bytes) ? bounds_refusal(stream) : REAL(symbol, variant) arguments;               \
    }
#define NO_STREAM 0

/* Where the program says what is to lie where, no move of ours undoes it: the whole allocation is left to it. */
static void leave(CUdeviceptr start, CUmem_advise advice) {
    struct allocation a;
    bool sets = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
    if (sets && ledger_find(session.ledger, start, &a) && a.managed && a.kind == MEMORY_MANAGED)
        memory_leave(&a);
}

CUresult custom_cuMemAdvise(int variant, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    if (bounds_replaced(devPtr, count))
        return bounds_refusal(NO_STREAM);
    leave(devPtr, advice);
    return REAL(cuMemAdvise, variant)(devPtr, count, advice, device);
}

CUresult custom_cuMemAdvise_v2(int variant, CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                               CUmemLocation location) {
    if (bounds_replaced(devPtr, count))
        return bounds_refusal(NO_STREAM);
    leave(devPtr, advice);
    return REAL(cuMemAdvise_v2, variant)(devPtr, count, advice, location);
}

MANAGED_ONLY(cuMemPrefetchAsync, devPtr, count, stream_key(variant, hStream),
             (int variant, CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
             (devPtr, count, dstDevice, hStream))
MANAGED_ONLY(cuMemPrefetchAsync_v2, devPtr, count, stream_key(variant, hStream),
             (int variant, CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
              CUstream hStream),
             (devPtr, count, location, flags, hStream))
MANAGED_ONLY(cuMemRangeGetAttribute, devPtr, count, NO_STREAM,
             (int variant, void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
              size_t count),
             (data, dataSize, attribute, devPtr, count))
MANAGED_ONLY(cuMemRangeGetAttributes, devPtr, count, NO_STREAM,
             (int variant, void **data, size_t *dataSizes, CUmem_range_attribute *attributes, size_t numAttributes,
              CUdeviceptr devPtr, size_t count),
             (data, dataSizes, attributes, numAttributes, devPtr, count))
MANAGED_ONLY(cuStreamAttachMemAsync, dptr, length ? length : 1, stream_key(variant, hStream),
             (int variant, CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
             (hStream, dptr, length, flags))

static bool any_replaced(const CUdeviceptr *starts, const size_t *sizes, size_t count) {
    bool any = false;
    for (size_t i = 0; starts && sizes && i < count && !any; i++)
        any = bounds_replaced(starts[i], sizes[i]);
    return any;
}

/* The same of lists. */
#define MANAGED_ONLY_LIST(symbol, parameters, arguments)                                                               \
    CUresult custom_##symbol parameters {                                                                              \
        return any_replaced(dptrs, sizes, count) ? bounds_refusal(stream_key(variant, hStream))                        \
                                                 : REAL(symbol, variant) arguments;                                    \
    }

MANAGED_ONLY_LIST(cuMemPrefetchBatchAsync,
                  (int variant, CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
                   size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
                  (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream))
MANAGED_ONLY_LIST(cuMemDiscardBatchAsync,
                  (int variant, CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
                   CUstream hStream),
                  (dptrs, sizes, count, flags, hStream))
MANAGED_ONLY_LIST(cuMemDiscardAndPrefetchBatchAsync,
                  (int variant, CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
                   size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
                  (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream))
