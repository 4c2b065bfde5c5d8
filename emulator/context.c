#include "context.h"
#include "graphmemory.h"

#include "memory.h"
#include "module.h"
#include "pool.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

static atomic_ullong last_id;
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

static bool fill(CUcontext c) {
    static const size_t limits[] = {[CU_LIMIT_STACK_SIZE] = 1024,
                                    [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
                                    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
                                    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
                                    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
                                    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64};
    memcpy(c->limits, limits, sizeof limits);
    c->id = atomic_fetch_add(&last_id, 1) + 1;
    c->legacy = stream_new(c, CU_STREAM_DEFAULT, 0);
    atomic_store(&c->error, CUDA_SUCCESS);
    atomic_store(&c->alive, c->legacy != NULL);
    return c->legacy != NULL;
}

CUcontext context_new(struct device *d, unsigned flags) {
    CUcontext c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->device = d;
    c->flags = flags;
    c->api_version = 3020;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->launch, NULL);
    pthread_mutex_init(&c->streams_lock, NULL);
    if (fill(c))
        return c;
    free(c);
    return NULL;
}

void context_end(CUcontext c) {
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

void context_revive(CUcontext c) {
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

CUcontext context_primary(struct device *d) {
    pthread_mutex_lock(&primaries);
    if (!d->primary)
        d->primary = context_new(d, CU_CTX_SCHED_AUTO);
    CUcontext c = d->primary;
    pthread_mutex_unlock(&primaries);
    return c;
}

/* --- primary contexts --- */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
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
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
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

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
    BEGIN(CALL_DRIVER);
    return primary_release(d, false);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    BEGIN(CALL_DRIVER);
    return primary_release(d, false);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice d) {
    BEGIN(CALL_DRIVER);
    return primary_release(d, true);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) {
    BEGIN(CALL_DRIVER);
    return primary_release(d, true);
}

static CUresult primary_set_flags(CUdevice d, unsigned flags) {
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = context_primary(&devices[d]);
    if (!primary)
        return CUDA_ERROR_OUT_OF_MEMORY;
    primary->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned flags) {
    BEGIN(CALL_DRIVER);
    return primary_set_flags(d, flags);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned flags) {
    BEGIN(CALL_DRIVER);
    return primary_set_flags(d, flags);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) {
    BEGIN(CALL_DRIVER);
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary = devices[d].primary;
    if (flags)
        *flags = primary ? primary->flags : 0;
    if (active)
        *active = primary && primary->retains > 0 && atomic_load(&primary->alive);
    return CUDA_SUCCESS;
}

/* --- contexts --- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice d) {
    struct thread *t = thread_self();
    if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_valid(d))
        return CUDA_ERROR_INVALID_DEVICE;
    if (t->depth == sizeof t->stack / sizeof *t->stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext made = context_new(&devices[d], flags);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->stack[t->depth++] = *out = made;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice d) {
    BEGIN(CALL_DRIVER);
    return create(out, flags, d);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice d) {
    BEGIN(CALL_DRIVER);
    return create(out, flags, d);
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (affinity || count)
        NOT_EMULATED("execution affinity in cuCtxCreate_v3");
    return create(out, flags, d);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (params && (params->numExecAffinityParams || params->cigParams))
        NOT_EMULATED("execution affinity in cuCtxCreate_v4");
    return create(out, flags, d);
}

static bool is_primary(CUcontext c) {
    return c->device->primary == c;
}

static CUresult destroy(CUcontext victim) {
    struct thread *t = thread_self();
    if (!victim || is_primary(victim))
        return CUDA_ERROR_INVALID_VALUE;
    if (!atomic_load(&victim->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_end(victim);
    if (t->depth && t->stack[t->depth - 1] == victim)
        t->depth--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxAttach(CUcontext *out, unsigned flags) {
    BEGIN(CALL_DRIVER);
    CUcontext current = context_current();
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    current->attached++;
    *out = current;
    return CUDA_SUCCESS;
}

/* As on an H100: a primary context stays, whatever it says. */
EXPORT CUresult cuCtxDetach(CUcontext given) {
    BEGIN(CALL_DRIVER);
    if (!given || given != context_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&given->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (is_primary(given))
        return CUDA_SUCCESS;
    if (given->attached == 0)
        return destroy(given);
    given->attached--;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy(CUcontext victim) {
    BEGIN(CALL_DRIVER);
    return destroy(victim);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext victim) {
    BEGIN(CALL_DRIVER);
    return destroy(victim);
}

static CUresult push(CUcontext pushed) {
    struct thread *t = thread_self();
    if (!pushed)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (t->depth == sizeof t->stack / sizeof *t->stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->stack[t->depth++] = pushed;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out) {
    struct thread *t = thread_self();
    if (!t->depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext popped = t->stack[--t->depth];
    if (out)
        *out = popped;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent(CUcontext pushed) {
    BEGIN(CALL_DRIVER);
    return push(pushed);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext pushed) {
    BEGIN(CALL_DRIVER);
    return push(pushed);
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *out) {
    BEGIN(CALL_DRIVER);
    return pop(out);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    BEGIN(CALL_DRIVER);
    return pop(out);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext wanted) {
    BEGIN(CALL_DRIVER);
    struct thread *t = thread_self();
    if (t->depth)
        t->depth--;
    return wanted ? push(wanted) : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out) {
    BEGIN(CALL_DRIVER);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context_current();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *out) {
    BEGIN(CALL_DRIVER);
    CUcontext current = context_current();
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = current->device->ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext asked) {
    BEGIN(CALL_DRIVER);
    asked = asked ? asked : context_current();
    if (!asked)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = asked->device->ordinal;
    return CUDA_SUCCESS;
}
