#include "driver/context.h"

#include "base/lock.h"
#include "base/patience.h"
#include "driver/capture.h"
#include "driver/session.h"

enum { TRIES = 3 };

int context_device(void) {
    CUdevice device;
    if (!session_on)
        return DEVICE_NONE;
    return REAL(cuCtxGetDevice, 0)(&device) == CUDA_SUCCESS ? device : DEVICE_NONE;
}

uint64_t context_current(void) {
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent, 0)(&context);
    return (uint64_t)(uintptr_t)context;
}

bool context_is_none(void) {
    CUcontext context;
    return REAL(cuCtxGetCurrent, 0)(&context) == CUDA_SUCCESS && !context;
}

bool context_enter(CUcontext context) {
    return REAL(cuCtxPushCurrent_v2, 0)(context) == CUDA_SUCCESS;
}

bool context_enter_stream(int variant, CUstream stream, CUcontext *before) {
    CUcontext its;
    *before = (CUcontext)(uintptr_t)context_current();
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

static struct lock door; /* of both lists */
static struct context_visit *visits, *departures;

static bool is_in(const struct context_visit *v, CUcontext context) {
    while (v && v->context != context)
        v = v->next;
    return v != NULL;
}

static bool holds(struct context_visit *const *list, CUcontext context) {
    lock_take(&door);
    bool is = is_in(*list, context);
    lock_drop(&door);
    return is;
}

/* False: the context is in `unless`. */
static bool put_in(struct context_visit **list, struct context_visit *v, struct context_visit *const *unless) {
    lock_take(&door);
    bool goes = !unless || !is_in(*unless, v->context);
    if (goes) {
        v->next = *list;
        *list = v;
    }
    lock_drop(&door);
    return goes;
}

static void take_out(struct context_visit **list, const struct context_visit *v) {
    lock_take(&door);
    while (*list != v)
        list = &(*list)->next;
    *list = v->next;
    lock_drop(&door);
}

static CUresult visit(struct context_visit *v, CUcontext context) {
    *v = (struct context_visit){.context = context, .before = (CUcontext)(uintptr_t)context_current()};
    if (!put_in(&visits, v, &departures))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (v->before == context || context_enter(context))
        return CUDA_SUCCESS;
    take_out(&visits, v);
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_visit(struct context_visit *v, CUcontext context) {
    section_begin();
    CUresult status = visit(v, context);
    if (status != CUDA_SUCCESS)
        section_end();
    return status;
}

void context_visited(struct context_visit *v) {
    if (v->before != v->context)
        context_leave(v->before);
    take_out(&visits, v);
    section_end();
}

void context_bar(struct context_visit *v, CUcontext context) {
    section_begin();
    v->context = context;
    put_in(&departures, v, NULL);
    struct patience need = {.what = PATIENCE_NEED};
    while (holds(&visits, context) && patience_rest(&need))
        ;
}

void context_unbar(struct context_visit *v) {
    take_out(&departures, v);
    section_end();
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
