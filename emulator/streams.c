/* The calls on streams. */
#include "capture.h"
#include "cost.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

static CUresult create(CUcontext c, CUstream *out, unsigned flags, int priority) {
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > LEAST_PRIORITY ? LEAST_PRIORITY : priority;
    priority = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    *out = stream_new(c, flags, priority);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    BEGIN(CALL_CONTEXT);
    return create(c, out, flags, 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    BEGIN(CALL_CONTEXT);
    return create(c, out, flags, priority);
}

static CUresult destroy(CUstream s) {
    if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    capture_loses_stream(s);
    stream_destroy(s);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream s) {
    BEGIN(CALL_CONTEXT | CALL_POISONED);
    return destroy(s);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream s) {
    BEGIN(CALL_CONTEXT | CALL_POISONED);
    return destroy(s);
}

STREAMED(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority), (stream, priority)) {
    BEGIN_ON(stream);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = s->priority;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned *flags), (stream, flags)) {
    BEGIN_ON(stream);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = s->flags;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id), (stream, id)) {
    BEGIN_ON(stream);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = s->id;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice *device), (stream, device)) {
    BEGIN_ON(stream);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = s->context->device->ordinal;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *out), (stream, out)) {
    BEGIN_ON(stream);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = s->context;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamGetCtx_v2, _ptsz, (CUstream stream, CUcontext *out, CUgreenCtx *green), (stream, out, green)) {
    BEGIN_ON(stream);
    if (!out || !green)
        return CUDA_ERROR_INVALID_VALUE;
    *out = s->context;
    *green = NULL;
    return CUDA_SUCCESS;
}

STREAMED(cuStreamQuery, _ptsz, (CUstream stream), (stream)) {
    BEGIN_ON(stream);
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct mark *marks;
    size_t n = stream_marks(s, &marks);
    bool passed = marks_passed(marks, n);
    marks_release(marks, n);
    return passed ? (CUresult)atomic_load(&s->context->error) : CUDA_ERROR_NOT_READY;
}

STREAMED(cuStreamSynchronize, _ptsz, (CUstream stream), (stream)) {
    BEGIN_ON(stream);
    if (capture_stops_stream_wait(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct mark *marks;
    size_t n = stream_marks(s, &marks);
    marks_wait(marks, n);
    marks_release(marks, n);
    return (CUresult)atomic_load(&s->context->error);
}

STREAMED(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data), (stream, function, data)) {
    BEGIN_ON(stream);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    struct work w = {.kind = WORK_HOST, .host = {.function = function, .data = data}};
    return stream_issue(s, &w);
}

STREAMED(cuStreamAddCallback, _ptsz, (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
         (stream, callback, data, flags)) {
    BEGIN_ON(stream);
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
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
STREAMED(cuStreamAttachMemAsync, _ptsz, (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags),
         (stream, address, bytes, flags)) {
    BEGIN_ON(stream);
    struct area a;
    if (!address || flags == 0 || flags > CU_MEM_ATTACH_SINGLE || (area_find(address, &a) && a.kind != AREA_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    (void)bytes;
    struct work w = {.kind = WORK_EMPTY};
    return stream_issue(s, &w);
}

STREAMED(cuStreamGetAttribute, _ptsz, (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value),
         (stream, id, value)) {
    BEGIN_ON(stream);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = (CUstreamAttrValue){{0}};
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    else if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        value->syncPolicy = CU_SYNC_POLICY_AUTO;
    return CUDA_SUCCESS;
}

/* They advise caches and priorities, of which there are none. */
STREAMED(cuStreamSetAttribute, _ptsz, (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
         (stream, id, value)) {
    BEGIN_ON(stream);
    (void)id;
    return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STREAMED(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from), (to, from)) {
    BEGIN_ON(to);
    (void)from;
    return CUDA_SUCCESS;
}
