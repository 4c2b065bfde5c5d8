/* The driver's calls that all backends need which move pages. */

#include "backend/pager/pager.h"
#include "base/log.h"
#include "driver/context.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { POLL_US = 50, LEAST_STACK = 16 };

bool pager_done(CUresult status, const char *what, uint64_t bytes) {
    if (status == CUDA_SUCCESS)
        return true;
    stats_add(COUNT_move_failures, 1);
    log_debug("%s of %llu KiB was refused: error %d", what, (unsigned long long)(bytes >> 10), (int)status);
    return false;
}

bool pager_device_has(CUdevice_attribute attribute, int32_t device) {
    int has = 0;
    return REAL(cuDeviceGetAttribute, 0)(&has, attribute, device) == CUDA_SUCCESS && has;
}

CUstream pager_stream_new(void) {
    CUstream stream = NULL;
    return pager_done(REAL(cuStreamCreate, 0)(&stream, CU_STREAM_NON_BLOCKING), "a stream", 0) ? stream : NULL;
}

/* Also where it refuses to wait: what is still under way must not come after what the caller does next. */
bool pager_stream_finish(CUstream stream) {
    CUresult status = REAL(cuStreamSynchronize, 0)(stream);
    if (status != CUDA_SUCCESS)
        while ((status = REAL(cuStreamQuery, 0)(stream)) == CUDA_ERROR_NOT_READY)
            thread_sleep(POLL_US);
    return status == CUDA_SUCCESS;
}

/* No kernel runs in it: stacks, for as many threads as the device can have, would be half of what it takes. */
CUcontext pager_context_new(int32_t device) {
    CUcontext context = NULL;
    CUdevice handle;
    bool made = REAL(cuDeviceGet, 0)(&handle, device) == CUDA_SUCCESS &&
                pager_done(REAL(cuCtxCreate_v2, 0)(&context, CU_CTX_SCHED_BLOCKING_SYNC, handle), "a context", 0);
    if (made)
        REAL(cuCtxSetLimit, 0)(CU_LIMIT_STACK_SIZE, LEAST_STACK);
    return made ? context : NULL;
}

uint64_t pager_device_bytes(int32_t device) {
    size_t bytes = 0;
    return REAL(cuDeviceTotalMem_v2, 0)(&bytes, device) == CUDA_SUCCESS ? bytes : 0;
}

struct pager_visit pager_enter(CUcontext context) {
    struct pager_visit v = {.relaxed = capture_relax()};
    if (context && REAL(cuCtxGetCurrent, 0)(&v.before) == CUDA_SUCCESS && v.before != context)
        v.entered = context_enter(context);
    return v;
}

void pager_leave(struct pager_visit v) {
    if (v.entered)
        context_leave(v.before);
    capture_restore(v.relaxed);
}

CUcontext pager_current(void) {
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent, 0)(&context);
    return context;
}
