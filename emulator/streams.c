/* The calls on streams. */
#include "capture.h"
#include "cost.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

CALL(cuStreamCreateWithPriority, CALL_CONTEXT, CUstream *out, unsigned flags, int priority) {
    INVALID_IF(!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING);
    priority = priority > LEAST_PRIORITY ? LEAST_PRIORITY : priority;
    priority = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    *out = stream_new(c, flags, priority);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuStreamCreate, CALL_CONTEXT, CUstream *out, unsigned flags) {
    return body_cuStreamCreateWithPriority(c, out, flags, 0);
}

CALL(cuStreamDestroy_v2, CALL_CONTEXT | CALL_POISONED, CUstream s) {
    if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    capture_loses_stream(s);
    stream_destroy(s);
    return CUDA_SUCCESS;
}

CALL_ON(cuStreamGetPriority, CUstream stream, int *priority) {
    TELL(priority, s->priority);
}

CALL_ON(cuStreamGetFlags, CUstream stream, unsigned *flags) {
    TELL(flags, s->flags);
}

CALL_ON(cuStreamGetCtx, CUstream stream, CUcontext *out) {
    TELL(out, s->context);
}

CALL_ON(cuStreamGetCtx_v2, CUstream stream, CUcontext *out, CUgreenCtx *green) {
    INVALID_IF(!out || !green);
    *out = s->context;
    *green = NULL;
    return CUDA_SUCCESS;
}

CALL_ON(cuStreamQuery, CUstream stream) {
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct mark *marks;
    size_t n = stream_marks(s, &marks);
    bool passed = marks_passed(marks, n);
    marks_release(marks, n);
    return passed ? (CUresult)atomic_load(&s->context->error) : CUDA_ERROR_NOT_READY;
}

CALL_ON(cuStreamSynchronize, CUstream stream) {
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream_wait_all(s);
    return (CUresult)atomic_load(&s->context->error);
}

CALL_ON(cuLaunchHostFunc, CUstream stream, CUhostFn function, void *data) {
    INVALID_IF(!function);
    struct work w = {.kind = WORK_HOST, .host = {.function = function, .data = data}};
    return stream_issue(s, &w);
}

CALL_ON(cuStreamAddCallback, CUstream stream, CUstreamCallback callback, void *data, unsigned flags) {
    INVALID_IF(!callback || flags);
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct work w = {.kind = WORK_HOST, .host = {.callback = callback, .stream = stream, .data = data}};
    return stream_issue(s, &w);
}

void host_run(const struct host_work *h, struct emu_launch *r) {
    struct thread *t = thread_self();
    t->in_callback = true;
    if (h->callback)
        h->callback(h->stream, CUDA_SUCCESS, h->data);
    else
        h->function(h->data);
    t->in_callback = false;
    if (cost_counts())
        r->clock = cost_now();
}

/* All managed memory here is of the whole device: there is nothing to attach. */
CALL_ON(cuStreamAttachMemAsync, CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags) {
    struct area a;
    INVALID_IF(!address || flags == 0 || flags > CU_MEM_ATTACH_SINGLE ||
               (area_find(address, &a) && a.kind != AREA_MANAGED));
    struct work w = {.kind = WORK_EMPTY};
    return stream_issue(s, &w);
}
