/* What is asked and set about a context, and waiting for it. */
#include "context.h"

#include "capture.h"

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    BEGIN(CALL_CONTEXT);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned flags) {
    BEGIN(CALL_CONTEXT);
    c->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext asked, unsigned long long *id) {
    BEGIN(CALL_DRIVER);
    asked = asked ? asked : context_current();
    if (!asked)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = asked->id;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext asked, unsigned *version) {
    BEGIN(CALL_DRIVER);
    asked = asked ? asked : context_current();
    if (!asked)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = asked->api_version;
    return CUDA_SUCCESS;
}

static bool has_limit(CUcontext c, CUlimit limit) {
    return (size_t)limit < sizeof c->limits / sizeof *c->limits && c->limits[limit];
}

EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    BEGIN(CALL_CONTEXT);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!has_limit(c, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = c->limits[limit];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    BEGIN(CALL_CONTEXT);
    if (!has_limit(c, limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    c->limits[limit] = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
    BEGIN(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = c->cache;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    BEGIN(CALL_CONTEXT);
    c->cache = config;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    BEGIN(CALL_CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
    BEGIN(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

/* Nobody waits for what a capture merely records. */
static CUresult synchronize(CUcontext c) {
    if (capture_stops_wait(c))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return context_wait(c);
}

EXPORT CUresult cuCtxSynchronize(void) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return synchronize(c);
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext asked) {
    BEGIN(CALL_CONTEXT | CALL_UNSAFE);
    return synchronize(asked ? asked : c);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    BEGIN(CALL_CONTEXT);
    if (!peer || !atomic_load(&peer->alive))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->device == c->device)
        return CUDA_ERROR_INVALID_DEVICE;
    unsigned bit = 1u << peer->device->ordinal;
    return atomic_fetch_or(&c->peers, bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    BEGIN(CALL_CONTEXT);
    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    unsigned bit = 1u << peer->device->ordinal;
    return atomic_fetch_and(&c->peers, ~bit) & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
