/* The driver's calls on managed memory, in the form that the driver at hand has. */
#include <time.h>

#include "backend/um.h"
#include "base/log.h"
#include "observe/stats.h"

enum { POLL_NS = 50000 };

static bool done(CUresult status, const char *what, uint64_t bytes) {
    if (status == CUDA_SUCCESS)
        return true;
    stats_add(COUNT_move_failures, 1);
    log_debug("%s of %llu KiB was refused: error %d", what, (unsigned long long)(bytes >> 10), (int)status);
    return false;
}

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
    return done(status, "a prefetch", bytes);
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
    return done(status, "a discard", bytes);
}

bool um_advise_mostly_read(addr_t start, uint64_t bytes, int32_t device, bool mostly) {
    CUmem_advise advice = mostly ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY;
    CUresult status = REAL(cuMemAdvise_v2, 0)(start, bytes, advice, location(device));
    if (status == CUDA_ERROR_NOT_SUPPORTED)
        status = REAL(cuMemAdvise, 0)(start, bytes, advice, place(device));
    return done(status, "advice", bytes);
}

CUstream um_stream_new(void) {
    CUstream stream = NULL;
    return done(REAL(cuStreamCreate, 0)(&stream, CU_STREAM_NON_BLOCKING), "a stream", 0) ? stream : NULL;
}

/* Also where it refuses to wait: what is still under way must not come after what the caller does next. */
bool um_stream_finish(CUstream stream) {
    CUresult status = REAL(cuStreamSynchronize, 0)(stream);
    if (status != CUDA_SUCCESS)
        while ((status = REAL(cuStreamQuery, 0)(stream)) == CUDA_ERROR_NOT_READY)
            nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    return status == CUDA_SUCCESS;
}

CUcontext um_context_new(int32_t device) {
    CUcontext context = NULL;
    CUdevice handle;
    bool made = REAL(cuDeviceGet, 0)(&handle, device) == CUDA_SUCCESS &&
                done(REAL(cuCtxCreate_v2, 0)(&context, CU_CTX_SCHED_BLOCKING_SYNC, handle), "a context", 0);
    return made ? context : NULL;
}

struct um_visit um_enter(CUcontext context) {
    struct um_visit v = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    CUcontext now = NULL;
    REAL(cuThreadExchangeStreamCaptureMode, 0)(&v.mode);
    if (context && REAL(cuCtxGetCurrent, 0)(&now) == CUDA_SUCCESS && now != context)
        v.pushed = REAL(cuCtxPushCurrent_v2, 0)(context) == CUDA_SUCCESS;
    return v;
}

void um_leave(struct um_visit v) {
    CUcontext popped;
    if (v.pushed)
        REAL(cuCtxPopCurrent_v2, 0)(&popped);
    REAL(cuThreadExchangeStreamCaptureMode, 0)(&v.mode);
}
