/* A context takes all its memory with it. */
#include "interpose/describe.h"
#include "interpose/memory.h"
#include "interpose/session.h"

static void gone(CUcontext context) {
    functions_forget();
    memory_forget((uint64_t)(uintptr_t)context);
}

static void going(CUcontext context) {
    if (session_on && context && session.backend->forget)
        session.backend->forget((uint64_t)(uintptr_t)context);
}

CUresult custom_cuCtxDestroy_v2(int variant, CUcontext ctx) {
    going(ctx);
    CUresult status = REAL(cuCtxDestroy_v2, variant)(ctx);
    if (status == CUDA_SUCCESS && session_on)
        gone(ctx);
    return status;
}

/* The device's primary context if it is alive, without keeping it so. */
static CUcontext primary(CUdevice device) {
    CUcontext context = NULL;
    unsigned int flags;
    int active = 0;
    if (!session_on || REAL(cuDevicePrimaryCtxGetState, 0)(device, &flags, &active) != CUDA_SUCCESS || !active)
        return NULL;
    if (REAL(cuDevicePrimaryCtxRetain, 0)(&context, device) != CUDA_SUCCESS)
        return NULL;
    REAL(cuDevicePrimaryCtxRelease_v2, 0)(device);
    return context;
}

static CUresult maybe_gone(CUresult status, CUcontext before, CUdevice device) {
    if (status == CUDA_SUCCESS && before && !primary(device))
        gone(before);
    return status;
}

CUresult custom_cuDevicePrimaryCtxRelease_v2(int variant, CUdevice dev) {
    CUcontext before = primary(dev);
    going(before);
    return maybe_gone(REAL(cuDevicePrimaryCtxRelease_v2, variant)(dev), before, dev);
}

CUresult custom_cuDevicePrimaryCtxReset_v2(int variant, CUdevice dev) {
    CUcontext before = primary(dev);
    going(before);
    return maybe_gone(REAL(cuDevicePrimaryCtxReset_v2, variant)(dev), before, dev);
}
