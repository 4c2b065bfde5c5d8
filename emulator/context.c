#include "context.h"

#include "capture.h"
#include "graphmemory.h"
#include "memory.h"
#include "module.h"
#include "pool.h"
#include "stream.h"

#include <stdlib.h>

static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

static bool fill(CUcontext c) {
    c->legacy = stream_new(c, CU_STREAM_DEFAULT, 0);
    atomic_store(&c->error, CUDA_SUCCESS);
    atomic_store(&c->alive, c->legacy != NULL);
    return c->legacy != NULL;
}

/* A new context whose streams are empty, or NULL. */
static CUcontext context_new(struct device *d, unsigned flags) {
    CUcontext c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->device = d;
    c->flags = flags;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->launch, NULL);
    pthread_mutex_init(&c->streams_lock, NULL);
    if (fill(c))
        return c;
    free(c);
    return NULL;
}

/* Waits for all its work, frees its memory, streams and modules. The structure stays: handles to it answer
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. */
static void context_end(CUcontext c) {
    context_wait(c);
    atomic_store(&c->alive, false);
    while (c->streams)
        stream_destroy(c->streams);
    c->legacy = NULL;
    modules_free_of(c);
    memory_free_context(c);
    graph_memory_trim(c->device);
    atomic_store(&c->peers, 0);
}

/* Makes an ended primary context usable again. */
static void context_revive(CUcontext c) {
    if (!atomic_load(&c->alive))
        fill(c);
}

void context_poison(CUcontext c, CUresult error) {
    int none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&c->error, &none, (int)error);
}

CUresult context_wait(CUcontext c) {
    struct mark *marks;
    size_t n = streams_mark(c, &marks);
    marks_wait(marks, n);
    marks_release(marks, n);
    return (CUresult)atomic_load(&c->error);
}

void context_drain(CUcontext c) {
    pthread_mutex_lock(&c->lock);
    context_wait(c);
}

/* The context of a primary, made on first use. */
static CUcontext context_primary(struct device *d) {
    pthread_mutex_lock(&primaries);
    if (!d->primary)
        d->primary = context_new(d, CU_CTX_SCHED_AUTO);
    CUcontext c = d->primary;
    pthread_mutex_unlock(&primaries);
    return c;
}

/* --- primary contexts --- */

CALL(cuDevicePrimaryCtxRetain, CALL_DRIVER, CUcontext *out, CUdevice d) {
    INVALID_IF(!out);
    CHECK_DEVICE(d);
    CUcontext primary = context_primary(&devices[d]);
    if (!primary)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&primaries);
    context_revive(primary);
    primary->retains++;
    pthread_mutex_unlock(&primaries);
    *out = primary;
    return CUDA_SUCCESS;
}

static CUresult primary_release(CUdevice d, bool reset) {
    CHECK_DEVICE(d);
    CUcontext primary = devices[d].primary;
    pthread_mutex_lock(&primaries);
    bool active = primary && primary->retains > 0;
    if (active && !reset)
        primary->retains--;
    if (active && (reset || primary->retains == 0) && atomic_load(&primary->alive))
        context_end(primary);
    pthread_mutex_unlock(&primaries);
    return active || reset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CALL(cuDevicePrimaryCtxRelease, CALL_DRIVER, CUdevice d) {
    return primary_release(d, false);
}
SAME(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease);

CALL(cuDevicePrimaryCtxReset, CALL_DRIVER, CUdevice d) {
    return primary_release(d, true);
}
SAME(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset);

CALL(cuDevicePrimaryCtxGetState, CALL_DRIVER, CUdevice d, unsigned *flags, int *active) {
    CHECK_DEVICE(d);
    CUcontext primary = devices[d].primary;
    if (flags)
        *flags = primary ? primary->flags : 0;
    if (active)
        *active = primary && primary->retains > 0 && atomic_load(&primary->alive);
    return CUDA_SUCCESS;
}

/* --- contexts --- */

CALL(cuCtxCreate_v2, CALL_DRIVER, CUcontext *out, unsigned flags, CUdevice d) {
    struct thread *t = thread_self();
    INVALID_IF(!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK);
    CHECK_DEVICE(d);
    if (t->depth == sizeof t->stack / sizeof *t->stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext made = context_new(&devices[d], flags);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->stack[t->depth++] = *out = made;
    return CUDA_SUCCESS;
}

CALL(cuCtxCreate_v3, CALL_DRIVER, CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags,
     CUdevice d) {
    if (affinity || count)
        NOT_EMULATED("execution affinity in cuCtxCreate_v3");
    return body_cuCtxCreate_v2(c, out, flags, d);
}

CALL(cuCtxCreate_v4, CALL_DRIVER, CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice d) {
    if (params && (params->numExecAffinityParams || params->cigParams))
        NOT_EMULATED("execution affinity in cuCtxCreate_v4");
    return body_cuCtxCreate_v2(c, out, flags, d);
}

static bool is_primary(CUcontext c) {
    return c->device->primary == c;
}

CALL(cuCtxDestroy, CALL_DRIVER, CUcontext victim) {
    struct thread *t = thread_self();
    INVALID_IF(!victim || is_primary(victim));
    if (!atomic_load(&victim->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_end(victim);
    if (t->depth && t->stack[t->depth - 1] == victim)
        t->depth--;
    return CUDA_SUCCESS;
}
SAME(cuCtxDestroy_v2, cuCtxDestroy);

CALL(cuCtxAttach, CALL_DRIVER, CUcontext *out, unsigned flags) {
    CUcontext current = context_current();
    INVALID_IF(!out || flags);
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    current->attached++;
    *out = current;
    return CUDA_SUCCESS;
}

/* As on an H100: a primary context stays, whatever it says. */
CALL(cuCtxDetach, CALL_DRIVER, CUcontext given) {
    if (!given || given != context_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&given->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (is_primary(given))
        return CUDA_SUCCESS;
    if (given->attached == 0)
        return body_cuCtxDestroy(c, given);
    given->attached--;
    return CUDA_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, CALL_DRIVER, CUcontext pushed) {
    struct thread *t = thread_self();
    if (!pushed)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (t->depth == sizeof t->stack / sizeof *t->stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->stack[t->depth++] = pushed;
    return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, CALL_DRIVER, CUcontext *out) {
    struct thread *t = thread_self();
    if (!t->depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext popped = t->stack[--t->depth];
    if (out)
        *out = popped;
    return CUDA_SUCCESS;
}

CALL(cuCtxSetCurrent, CALL_DRIVER, CUcontext wanted) {
    struct thread *t = thread_self();
    if (t->depth)
        t->depth--;
    return wanted ? body_cuCtxPushCurrent_v2(c, wanted) : CUDA_SUCCESS;
}

CALL(cuCtxGetCurrent, CALL_DRIVER, CUcontext *out) {
    TELL(out, context_current());
}

CALL(cuCtxGetDevice_v2, CALL_DRIVER, CUdevice *out, CUcontext asked) {
    asked = asked ? asked : context_current();
    if (!asked)
        return CUDA_ERROR_INVALID_CONTEXT;
    TELL(out, asked->device->ordinal);
}

CALL(cuCtxGetDevice, CALL_DRIVER, CUdevice *out) {
    return body_cuCtxGetDevice_v2(c, out, NULL);
}

/* A device here has no stack, heap or cache to limit. */
CALL(cuCtxSetLimit, CALL_CONTEXT, CUlimit limit, size_t value) {
    return (unsigned)limit <= CU_LIMIT_MAX_L2_FETCH_GRANULARITY ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

/* Nobody waits for what a capture merely records. */
CALL(cuCtxSynchronize_v2, CALL_CONTEXT | CALL_UNSAFE, CUcontext asked) {
    if (capture_stops_wait(asked ? asked : c))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return context_wait(asked ? asked : c);
}

CALL(cuCtxSynchronize, CALL_CONTEXT | CALL_UNSAFE) {
    return body_cuCtxSynchronize_v2(c, NULL);
}

CALL(cuCtxEnablePeerAccess, CALL_CONTEXT, CUcontext peer, unsigned flags) {
    if (!peer || !atomic_load(&peer->alive))
        return CUDA_ERROR_INVALID_CONTEXT;
    INVALID_IF(flags);
    if (peer->device == c->device)
        return CUDA_ERROR_INVALID_DEVICE;
    unsigned bit = 1u << peer->device->ordinal;
    return atomic_fetch_or(&c->peers, bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CALL(cuCtxDisablePeerAccess, CALL_CONTEXT, CUcontext peer) {
    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    unsigned bit = 1u << peer->device->ordinal;
    return atomic_fetch_and(&c->peers, ~bit) & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
