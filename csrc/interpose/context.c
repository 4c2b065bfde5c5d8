/* A context takes all its memory with it. */
#include "interpose/context.h"

#include "base/thread.h"
#include "interpose/capture.h"
#include "interpose/describe.h"
#include "interpose/memory.h"
#include "interpose/session.h"

enum { TRIES = 3, LOOKS = 20 }; /* what is asked answers within microseconds */

bool context_enter(CUcontext context) {
    return REAL(cuCtxPushCurrent_v2, 0)(context) == CUDA_SUCCESS;
}

bool context_enter_stream(int variant, CUstream stream, CUcontext *before) {
    CUcontext its;
    *before = (CUcontext)(uintptr_t)session_context();
    return REAL(cuStreamGetCtx, variant)(stream, &its) == CUDA_SUCCESS && its != *before && context_enter(its);
}

void context_leave(CUcontext before) {
    CUcontext popped;
    for (int i = 0; i < TRIES; i++)
        if (REAL(cuCtxPopCurrent_v2, 0)(&popped) == CUDA_SUCCESS)
            return;
    REAL(cuCtxSetCurrent, 0)(before); /* the stack stays one deeper */
}

/* The context is current. */
static CUresult look_for_idle(CUcontext context, uint64_t patience_ns) {
    uint64_t until = clock_ns() + patience_ns;
    CUevent event;
    CUresult status = REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING);
    if (status != CUDA_SUCCESS)
        return status;
    status = capture_keep_off() ? REAL(cuCtxRecordEvent, 0)(context, event) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    bool asked = status == CUDA_SUCCESS;
    for (int i = 0; asked && (status = REAL(cuEventQuery, 0)(event)) == CUDA_ERROR_NOT_READY &&
                    (i < LOOKS || (patience_ns && clock_ns() < until));
         i++)
        thread_give_way(i);
    REAL(cuEventDestroy_v2, 0)(event);
    return status;
}

CUresult context_idle(CUcontext context, uint64_t patience_ns) {
    CUcontext before = (CUcontext)(uintptr_t)session_context();
    bool other = before != context;
    CUresult status = CUDA_ERROR_INVALID_CONTEXT;
    struct relaxed relaxed = capture_relax();
    if (!other || context_enter(context)) {
        status = look_for_idle(context, patience_ns);
        if (other)
            context_leave(before);
    }
    capture_restore(relaxed);
    return status;
}

static void gone(CUcontext context) {
    capture_forget((uint64_t)(uintptr_t)context);
    memory_forget((uint64_t)(uintptr_t)context);
}

/* Handles of functions are forgotten before the real call: after it, another thread's image may have them. True: the
 * backend was told. */
static bool going(CUcontext context) {
    if (!session_on)
        return false;
    functions_forget();
    bool told = context && session.backend->forget;
    if (told)
        session.backend->forget((uint64_t)(uintptr_t)context);
    return told;
}

static void went(bool told) {
    if (told)
        session.backend->forgotten();
}

CUresult custom_cuCtxDestroy_v2(int variant, CUcontext ctx) {
    bool told = going(ctx);
    CUresult status = REAL(cuCtxDestroy_v2, variant)(ctx);
    if (status == CUDA_SUCCESS && session_on)
        gone(ctx);
    went(told);
    return status;
}

static CUcontext retained[DEVICE_MAX]; /* the primary contexts that the program was given, until they are gone */

CUresult custom_cuDevicePrimaryCtxRetain(int variant, CUcontext *pctx, CUdevice dev) {
    CUresult status = REAL(cuDevicePrimaryCtxRetain, variant)(pctx, dev);
    if (status == CUDA_SUCCESS && pctx && dev >= 0 && dev < DEVICE_MAX)
        __atomic_store_n(&retained[dev], *pctx, __ATOMIC_RELEASE);
    return status;
}

static CUcontext primary(CUdevice device) {
    bool known = session_on && device >= 0 && device < DEVICE_MAX;
    return known ? __atomic_load_n(&retained[device], __ATOMIC_ACQUIRE) : NULL;
}

/* What may be gone counts as gone: its streams and memory must not be used again. */
static void look(CUresult status, CUcontext before, CUdevice device) {
    unsigned int flags;
    int active = 0;
    if (status == CUDA_SUCCESS && before &&
        (REAL(cuDevicePrimaryCtxGetState, 0)(device, &flags, &active) != CUDA_SUCCESS || !active))
        gone(before);
}

CUresult custom_cuDevicePrimaryCtxRelease_v2(int variant, CUdevice dev) {
    CUcontext before = primary(dev);
    bool told = going(before);
    CUresult status = REAL(cuDevicePrimaryCtxRelease_v2, variant)(dev);
    look(status, before, dev);
    went(told);
    return status;
}

CUresult custom_cuDevicePrimaryCtxReset_v2(int variant, CUdevice dev) {
    CUcontext before = primary(dev);
    bool told = going(before);
    CUresult status = REAL(cuDevicePrimaryCtxReset_v2, variant)(dev);
    look(status, before, dev);
    went(told);
    return status;
}
