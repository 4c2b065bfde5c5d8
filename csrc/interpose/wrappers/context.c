#include "interpose/session/departure.h"

#include "base/hash.h"
#include "driver/session.h"

#define DESTROY(symbol)                                                                                                \
    CUresult custom_##symbol(int variant, CUcontext ctx) {                                                             \
        struct context_departure x;                                                                                    \
        context_going(&x, ctx);                                                                                        \
        CUresult status = REAL(symbol, variant)(ctx);                                                                  \
        context_went(&x, status == CUDA_SUCCESS);                                                                      \
        return status;                                                                                                 \
    }

DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

static struct hash attached; /* CUcontext -> how many references there are beside the one of its maker */

static uintptr_t others_of(CUcontext context) {
    return (uintptr_t)hash_get(&attached, (uint64_t)(uintptr_t)context);
}

static void set_others(CUcontext context, uintptr_t others) {
    if (others > 0)
        hash_put(&attached, (uint64_t)(uintptr_t)context, (void *)others, NULL);
    else
        hash_take(&attached, (uint64_t)(uintptr_t)context);
}

CUresult custom_cuCtxAttach(int variant, CUcontext *pctx, unsigned int flags) {
    CUresult status = REAL(cuCtxAttach, variant)(pctx, flags);
    if (session_on && status == CUDA_SUCCESS)
        set_others(*pctx, others_of(*pctx) + 1);
    return status;
}

/* A primary context stays. */
static bool is_gone(CUcontext context) {
    size_t free_bytes, total;
    CUcontext before = (CUcontext)(uintptr_t)context_current();
    if (!context_enter(context))
        return true;
    bool gone = REAL(cuMemGetInfo_v2, 0)(&free_bytes, &total) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    context_leave(before);
    return gone;
}

CUresult custom_cuCtxDetach(int variant, CUcontext ctx) {
    struct context_departure x;
    uintptr_t others = session_on && ctx ? others_of(ctx) : 0;
    bool goes = session_on && ctx && others == 0;
    if (goes)
        context_going(&x, ctx);
    CUresult status = REAL(cuCtxDetach, variant)(ctx);
    if (goes)
        context_went(&x, status == CUDA_SUCCESS && is_gone(ctx));
    else if (others > 0 && status == CUDA_SUCCESS)
        set_others(ctx, others - 1);
    return status;
}

/* --- primary contexts: each goes with the last reference. The references that the program takes are counted, as the
 * driver tells only whether there are any --- */

static struct primary {
    CUcontext context;   /* that the program was given; NULL: none yet */
    uint32_t references; /* that we saw it take */
    bool others;         /* it was there before the first of these: somebody has references that we did not see */
} primaries[DEVICE_MAX]; /* all fields are atomic */

/* NULL: its context is not known. */
static struct primary *primary_of(CUdevice device) {
    bool known = session_on && device >= 0 && device < DEVICE_MAX;
    return known && __atomic_load_n(&primaries[device].context, __ATOMIC_ACQUIRE) ? &primaries[device] : NULL;
}

/* What may be gone counts as gone: its streams and memory must not be used again. */
static bool is_there(CUdevice device) {
    unsigned int flags;
    int active = 0;
    return REAL(cuDevicePrimaryCtxGetState, 0)(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUresult custom_cuDevicePrimaryCtxRetain(int variant, CUcontext *pctx, CUdevice dev) {
    struct primary *p = session_on && pctx && dev >= 0 && dev < DEVICE_MAX ? &primaries[dev] : NULL;
    if (p && __atomic_fetch_add(&p->references, 1, __ATOMIC_ACQ_REL) == 0)
        __atomic_store_n(&p->others, is_there(dev), __ATOMIC_RELEASE);
    CUresult status = REAL(cuDevicePrimaryCtxRetain, variant)(pctx, dev);
    if (p && status == CUDA_SUCCESS)
        __atomic_store_n(&p->context, *pctx, __ATOMIC_RELEASE);
    else if (p)
        __atomic_fetch_sub(&p->references, 1, __ATOMIC_ACQ_REL);
    return status;
}

/* Takes one back. Returns how many there were. */
static uint32_t give_back(struct primary *p) {
    uint32_t before = __atomic_load_n(&p->references, __ATOMIC_ACQUIRE);
    while (before &&
           !__atomic_compare_exchange_n(&p->references, &before, before - 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return before;
}

/* A context that went unforeseen is told of when it is gone. */
CUresult custom_cuDevicePrimaryCtxRelease_v2(int variant, CUdevice dev) {
    struct primary *p = primary_of(dev);
    struct context_departure x;
    uint32_t references = p ? give_back(p) : 0;
    bool goes = references == 1 && !__atomic_load_n(&p->others, __ATOMIC_ACQUIRE);
    if (goes)
        context_going(&x, p->context);
    CUresult status = REAL(cuDevicePrimaryCtxRelease_v2, variant)(dev);
    bool gone = p && status == CUDA_SUCCESS && !is_there(dev);
    if (gone && !goes)
        context_going(&x, p->context);
    if (goes || gone)
        context_went(&x, gone);
    if (references > 0 && status != CUDA_SUCCESS)
        __atomic_fetch_add(&p->references, 1, __ATOMIC_ACQ_REL);
    return status;
}

/* References outlive it. */
CUresult custom_cuDevicePrimaryCtxReset_v2(int variant, CUdevice dev) {
    struct primary *p = primary_of(dev);
    struct context_departure x;
    bool goes = p && is_there(dev);
    if (goes)
        context_going(&x, p->context);
    CUresult status = REAL(cuDevicePrimaryCtxReset_v2, variant)(dev);
    if (goes)
        context_went(&x, status == CUDA_SUCCESS && !is_there(dev));
    return status;
}
