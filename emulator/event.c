#include "event.h"

#include "capture.h"
#include "cost.h"

#include <stdlib.h>

struct stamp *stamp_new(void) {
    struct stamp *t = calloc(1, sizeof *t);
    if (t)
        atomic_store(&t->refs, 1);
    return t;
}

struct stamp *stamp_hold(struct stamp *t) {
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void stamp_release(struct stamp *t) {
    if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    mark_release(&t->at);
    free(t);
}

void event_set(CUevent e, struct stamp *t) {
    pthread_mutex_lock(&e->lock);
    struct stamp *before = e->stamp;
    e->stamp = t;
    pthread_mutex_unlock(&e->lock);
    stamp_release(before);
}

struct stamp *event_last(CUevent e) {
    pthread_mutex_lock(&e->lock);
    struct stamp *t = e->stamp ? stamp_hold(e->stamp) : NULL;
    pthread_mutex_unlock(&e->lock);
    return t;
}

void stamp_run(struct stamp *t, struct emu_launch *r) {
    atomic_store(&t->ns, cost_counts() ? r->clock : cost_now());
}

void stamp_await(const struct stamp *t, struct emu_launch *r) {
    uint64_t then = t->at.stream == r->stream ? 0 : stream_wait(&t->at);
    r->clock = then > r->clock ? then : r->clock;
}

/* --- calls --- */

CALL(cuEventCreate, CALL_CONTEXT, CUevent *out, unsigned flags) {
    INVALID_IF(!out || flags & ~7u || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)));
    CUevent e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = c;
    e->flags = flags;
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return CUDA_SUCCESS;
}

CALL(cuEventDestroy_v2, CALL_DRIVER, CUevent e) {
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    capture_forget_event(e);
    stamp_release(e->stamp);
    pthread_mutex_destroy(&e->lock);
    free(e);
    return CUDA_SUCCESS;
}

CUresult event_record(CUstream s, CUevent e, unsigned flags) {
    CUresult result;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    INVALID_IF(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL);
    if (e->context != s->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (capture_records(s, e, flags & CU_EVENT_RECORD_EXTERNAL, &result))
        return result;
    struct stamp *t = stamp_new();
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct work w = {.kind = WORK_STAMP, .stamp = stamp_hold(t)};
    result = stream_enter(s, &w, NULL, &t->at);
    if (result == CUDA_SUCCESS) {
        capture_forget_event(e);
        event_set(e, t);
    } else {
        stamp_release(t);
    }
    return result;
}

CALL_ON(cuEventRecord, CUevent e, CUstream stream) {
    return event_record(s, e, 0);
}

/* In a stream of its own, behind what each of the others has still to do. */
CALL(cuCtxRecordEvent, CALL_CONTEXT | CALL_UNSAFE, CUcontext asked, CUevent e) {
    CUcontext of = asked ? asked : c;
    struct mark *marks;
    if (capture_stops_wait(of))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!e || e->context != of)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t n = streams_mark(of, &marks);
    CUstream s = stream_new(of, CU_STREAM_NON_BLOCKING, 0);
    CUresult result = s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    struct work w = {.kind = WORK_EMPTY};
    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
        result = stream_enter(s, &w, &marks[i], NULL);
    if (result == CUDA_SUCCESS)
        result = event_record(s, e, 0);
    if (s)
        stream_destroy(s);
    marks_release(marks, n);
    return result;
}

CALL_ON(cuEventRecordWithFlags, CUevent e, CUstream stream, unsigned flags) {
    return event_record(s, e, flags);
}

CALL_ON(cuStreamWaitEvent, CUstream stream, CUevent e, unsigned flags) {
    CUresult result = CUDA_SUCCESS;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    INVALID_IF(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL);
    if (capture_waits(s, e, flags & CU_EVENT_WAIT_EXTERNAL, &result))
        return result;
    struct stamp *t = event_last(e);
    struct work w = {.kind = WORK_EMPTY};
    if (t && !mark_passed(&t->at))
        result = stream_enter(s, &w, &t->at, NULL);
    stamp_release(t);
    return result;
}

/* What the driver answers is not known; that it does not take the event for one that has passed matters. */
static CUresult check(CUevent e) {
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    return atomic_load(&e->context->alive) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CALL(cuEventQuery, CALL_CONTEXT | CALL_UNSAFE, CUevent e) {
    TRY(check(e));
    if (capture_holds_event(e))
        return CUDA_ERROR_CAPTURED_EVENT;
    struct stamp *t = event_last(e);
    bool passed = !t || mark_passed(&t->at);
    stamp_release(t);
    return passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CALL(cuEventSynchronize, CALL_CONTEXT | CALL_UNSAFE, CUevent e) {
    TRY(check(e));
    if (capture_holds_event(e))
        return CUDA_ERROR_CAPTURED_EVENT;
    struct stamp *t = event_last(e);
    if (t)
        stream_wait(&t->at);
    stamp_release(t);
    return (CUresult)atomic_load(&e->context->error);
}

CALL(cuEventElapsedTime, CALL_CONTEXT | CALL_UNSAFE, float *ms, CUevent from, CUevent to) {
    INVALID_IF(!ms);
    if (!from || !to || (from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    struct stamp *a = event_last(from), *b = event_last(to);
    CUresult result = CUDA_SUCCESS;
    if (!a || !b)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!mark_passed(&a->at) || !mark_passed(&b->at))
        result = CUDA_ERROR_NOT_READY;
    else
        *ms = (float)((double)(int64_t)(atomic_load(&b->ns) - atomic_load(&a->ns)) / 1e6);
    stamp_release(a);
    stamp_release(b);
    return result;
}
SAME(cuEventElapsedTime_v2, cuEventElapsedTime);
