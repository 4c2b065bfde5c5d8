#include "interpose/departure.h"

#include "base/hash.h"
#include "driver/real.h"
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

static struct hash attached = HASH_EMPTY; /* CUcontext -> how many references there are beside the one of its maker */

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
