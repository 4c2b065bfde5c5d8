/* A context takes all its memory with it. */
#include "interpose/context.h"

#include <pthread.h>

#include "base/hash.h"
#include "base/patience.h"
#include "interpose/capture.h"
#include "interpose/describe.h"
#include "interpose/later.h"
#include "interpose/memory.h"
#include "interpose/session.h"

enum { TRIES = 3 };

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

/* --- of a context that another thread may destroy --- */

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER; /* of both lists */
static struct context_visit *visits, *departures;

static bool is_in(const struct context_visit *v, CUcontext context) {
    while (v && v->context != context)
        v = v->next;
    return v != NULL;
}

static bool holds(struct context_visit *const *list, CUcontext context) {
    pthread_mutex_lock(&door);
    bool is = is_in(*list, context);
    pthread_mutex_unlock(&door);
    return is;
}

/* False: the context is in `unless`. */
static bool put_in(struct context_visit **list, struct context_visit *v, struct context_visit *const *unless) {
    pthread_mutex_lock(&door);
    bool goes = !unless || !is_in(*unless, v->context);
    if (goes) {
        v->next = *list;
        *list = v;
    }
    pthread_mutex_unlock(&door);
    return goes;
}

static void take_out(struct context_visit **list, const struct context_visit *v) {
    pthread_mutex_lock(&door);
    while (*list != v)
        list = &(*list)->next;
    *list = v->next;
    pthread_mutex_unlock(&door);
}

CUresult context_visit(struct context_visit *v, CUcontext context) {
    *v = (struct context_visit){.context = context, .before = (CUcontext)(uintptr_t)session_context()};
    if (!put_in(&visits, v, &departures))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (v->before == context || context_enter(context))
        return CUDA_SUCCESS;
    take_out(&visits, v);
    return CUDA_ERROR_INVALID_CONTEXT;
}

void context_visited(struct context_visit *v) {
    if (v->before != v->context)
        context_leave(v->before);
    take_out(&visits, v);
}

/* --- whether it is idle --- */

/* The context is current. */
static CUresult look_for_idle(CUcontext context, uint64_t most_ns) {
    struct patience wish = {.most_ns = most_ns ? most_ns : 1};
    CUevent event;
    CUresult status = REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING);
    if (status != CUDA_SUCCESS)
        return status;
    status = capture_keep_off() ? REAL(cuCtxRecordEvent, 0)(context, event) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    bool asked = status == CUDA_SUCCESS;
    while (asked && (status = REAL(cuEventQuery, 0)(event)) == CUDA_ERROR_NOT_READY && !holds(&departures, context) &&
           patience_rest(&wish))
        ;
    REAL(cuEventDestroy_v2, 0)(event);
    return status;
}

CUresult context_idle(CUcontext context, uint64_t most_ns) {
    struct context_visit visit;
    struct relaxed relaxed = capture_relax();
    CUresult status = context_visit(&visit, context);
    if (status == CUDA_SUCCESS) {
        status = look_for_idle(context, most_ns);
        context_visited(&visit);
    }
    capture_restore(relaxed);
    return status;
}

/* --- destruction --- */

static void gone(CUcontext context) {
    capture_forget((uint64_t)(uintptr_t)context);
    memory_forget((uint64_t)(uintptr_t)context);
}

/* Handles of functions are forgotten before the real call: after it, another thread's image may have them. */
void context_going(struct context_departure *x, CUcontext context) {
    *x = (struct context_departure){.at.context = session_on ? context : NULL};
    if (session_on)
        functions_forget();
    if (!x->at.context)
        return;
    x->told = session.backend->forget;
    if (x->told)
        session.backend->forget((uint64_t)(uintptr_t)context);
    put_in(&departures, &x->at, NULL);
    struct patience need = {.what = PATIENCE_NEED};
    while (holds(&visits, context) && patience_rest(&need))
        ;
    later_leaves((uint64_t)(uintptr_t)context, true);
}

void context_went(struct context_departure *x, bool is_gone) {
    uint64_t context = (uint64_t)(uintptr_t)x->at.context;
    if (!context)
        return;
    if (is_gone)
        gone(x->at.context);
    else
        later_leaves(context, false);
    if (x->told)
        session.backend->forgotten(is_gone ? context : 0);
    take_out(&departures, &x->at);
}

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
    CUcontext before = (CUcontext)(uintptr_t)session_context();
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
