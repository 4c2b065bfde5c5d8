#include "call.h"

#include "capture.h"
#include "context.h"
#include "cost.h"
#include "emu.h"
#include "proc.h"

#include <stdio.h>
#include <string.h>

static _Atomic(struct call *) calls;

/* The function's first call. */
static void call_list(struct call *call) {
    if (atomic_exchange(&call->listed, true))
        return;
    call->since = proc_since(call->name);
    call->next = atomic_load(&calls);
    while (!atomic_compare_exchange_weak(&calls, &call->next, call))
        ;
}

CUresult call_enter(struct call *call, unsigned need, CUcontext *c, bool *inside) {
    if (!atomic_load_explicit(&call->listed, memory_order_relaxed))
        call_list(call);
    atomic_fetch_add_explicit(&call->count, 1, memory_order_relaxed);
    if (call->since > (uint32_t)driver_version)
        return call_absent(call);
    bool spared = fail_spares(call->name);
    if (spared)
        atomic_fetch_add_explicit(&call->spared, 1, memory_order_relaxed);
    CUresult injected = spared ? CUDA_SUCCESS : fail_now(call->name);
    if (injected)
        return injected;
    if (need & CALL_DRIVER) {
        if (!process_open() || process_forked())
            return CUDA_ERROR_NOT_INITIALIZED;
        if (thread_self()->in_callback)
            return CUDA_ERROR_NOT_PERMITTED;
        checkpoint_pass(inside);
        if (cost_counts())
            thread_self()->entered = cost_now();
    }
    if ((need & CALL_PASSES) == CALL_PASSES)
        *c = context_current();
    if ((need & CALL_CONTEXT) == CALL_CONTEXT) {
        if (!*c)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (!atomic_load(&(*c)->alive))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (*c) {
        pthread_mutex_lock(&(*c)->lock);
        pthread_mutex_unlock(&(*c)->lock);
        int error = atomic_load(&(*c)->error);
        if (error && (need & CALL_CONTEXT) == CALL_CONTEXT && !(need & CALL_POISONED))
            return (CUresult)error;
    }
    if (need & CALL_UNSAFE && capture_forbids())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

CUresult call_absent(struct call *call) {
    if (!atomic_exchange(&call->said, true))
        fprintf(stderr, "emu: %s is not emulated: CUDA_ERROR_NOT_SUPPORTED\n", call->name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool call_named(const char *symbol, const char *name) {
    size_t n = strlen(name);
    if (strncmp(symbol, name, n) != 0)
        return false;
    const char *rest = symbol + n;
    if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '0' && rest[2] <= '9')
        rest += 3;
    return !*rest || !strcmp(rest, "_ptsz") || !strcmp(rest, "_ptds");
}

static uint64_t sum(const char *name, bool spared) {
    uint64_t sum = 0;
    for (struct call *call = atomic_load(&calls); call; call = call->next)
        if (call_named(call->name, name))
            sum += spared ? atomic_load(&call->spared) : atomic_load(&call->count);
    return sum;
}

EXPORT uint64_t emu_calls(const char *name) {
    return sum(name, false);
}

EXPORT uint64_t emu_calls_spared(const char *name) {
    return sum(name, true);
}
