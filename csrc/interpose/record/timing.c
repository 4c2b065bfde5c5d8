#define _GNU_SOURCE
#include "interpose/record/timing.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/background.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/real.h"
#include "observe/trace.h"

enum { PENDING_MAX = 16384, POLL_US = 500, DRAIN_MS = 2000 };
static const uint64_t ANCHOR_NS = 10000000000u; /* elapsed times are floats: their grain grows with the distance */

/* What belongs to one context: its clock against ours. */
struct lane {
    CUcontext context;
    CUstream stream;
    CUevent anchor; /* retired at anchor_ns; NULL until the thread has set it */
    uint64_t anchor_ns;
    struct stamp *spare;
    bool dead; /* the context is gone */
    struct lane *next;
};

struct stamp {
    struct lane *lane;
    CUevent before, after;
    uint64_t serial;
    struct stamp *next;
};

static struct lock lock;
static struct lane *lanes;
static struct stamp *first, **last = &first;
static int pending;
static bool running; /* under the lock */
static bool stopping;
static pthread_t reader;

/* Under the lock. */
static struct lane *lane_of(CUcontext context) {
    for (struct lane *l = lanes; l; l = l->next)
        if (l->context == context && !l->dead)
            return l;
    struct lane *l = calloc(1, sizeof *l);
    if (l) {
        l->context = context;
        l->next = lanes;
        lanes = l;
    }
    return l;
}

static struct stamp *stamp_take(CUcontext context) {
    struct stamp *s = NULL;
    lock_take(&lock);
    struct lane *l = running && pending < PENDING_MAX ? lane_of(context) : NULL;
    if (l && (s = l->spare))
        l->spare = s->next;
    lock_drop(&lock);
    if (s || !l || !(s = calloc(1, sizeof *s)))
        return s;
    s->lane = l;
    if (REAL(cuEventCreate, 0)(&s->before, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
        if (REAL(cuEventCreate, 0)(&s->after, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
            return s;
        REAL(cuEventDestroy_v2, 0)(s->before);
    }
    free(s);
    return NULL;
}

static void stamp_spare(struct stamp *s) {
    lock_take(&lock);
    s->next = s->lane->spare;
    s->lane->spare = s;
    lock_drop(&lock);
}

/* An error here means that the context or stream is not what it was: its events are given up, never the program's call.
 */
static void stamp_give_up(struct stamp *s) {
    lock_take(&lock);
    s->lane->dead = true;
    lock_drop(&lock);
    free(s);
}

void timing_before(struct op *op) {
    if (op->kind > OP_GRAPH)
        return;
    struct stamp *s = stamp_take((CUcontext)(uintptr_t)context_current());
    if (s && REAL(cuEventRecord, 0)(s->before, (CUstream)(uintptr_t)op->stream) != CUDA_SUCCESS) {
        stamp_give_up(s);
        s = NULL;
    }
    op->stamp = s;
}

void timing_after(struct op *op) {
    struct stamp *s = op->stamp;
    if (!s)
        return;
    if (op->status != CUDA_SUCCESS) {
        stamp_spare(s);
    } else if (REAL(cuEventRecord, 0)(s->after, (CUstream)(uintptr_t)op->stream) != CUDA_SUCCESS) {
        stamp_give_up(s);
    } else {
        s->serial = op->serial;
        s->next = NULL;
        lock_take(&lock);
        *last = s;
        last = &s->next;
        pending++;
        lock_drop(&lock);
    }
}

/* On our thread. Puts the lane's clock right, at first and when it is far away. */
static bool anchor(struct lane *l) {
    float ms;
    CUevent event;
    if (l->anchor && clock_ns() - l->anchor_ns < ANCHOR_NS)
        return true;
    if (!l->stream && REAL(cuStreamCreate, 0)(&l->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    if (REAL(cuEventCreate, 0)(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        REAL(cuEventRecord, 0)(event, l->stream) != CUDA_SUCCESS || REAL(cuEventSynchronize, 0)(event) != CUDA_SUCCESS)
        return false;
    if (!l->anchor) {
        l->anchor_ns = clock_ns();
    } else if (REAL(cuEventElapsedTime, 0)(&ms, l->anchor, event) == CUDA_SUCCESS) {
        l->anchor_ns += (uint64_t)(ms * 1e6);
        REAL(cuEventDestroy_v2, 0)(l->anchor);
    }
    l->anchor = event;
    return true;
}

/* False: not retired yet. */
static bool stamp_read(struct stamp *s) {
    float from, ms;
    CUresult status = CUDA_ERROR_UNKNOWN;
    if (!s->lane->dead && REAL(cuCtxSetCurrent, 0)(s->lane->context) == CUDA_SUCCESS && anchor(s->lane))
        status = REAL(cuEventQuery, 0)(s->after);
    if (status == CUDA_ERROR_NOT_READY)
        return false;
    if (status == CUDA_SUCCESS && REAL(cuEventElapsedTime, 0)(&from, s->lane->anchor, s->before) == CUDA_SUCCESS &&
        REAL(cuEventElapsedTime, 0)(&ms, s->before, s->after) == CUDA_SUCCESS) {
        trace_retired(s->serial, s->lane->anchor_ns + (uint64_t)(int64_t)(from * 1e6), (uint64_t)(ms * 1e6));
        stamp_spare(s);
    } else {
        stamp_give_up(s);
    }
    return true;
}

static struct stamp *take_first(void) {
    lock_take(&lock);
    struct stamp *s = first;
    if (s) {
        first = s->next;
        pending--;
        if (!first)
            last = &first;
    }
    lock_drop(&lock);
    return s;
}

/* Set when the process ends: what has not retired by then is not waited for. */
static uint64_t deadline(void) {
    static uint64_t at;
    if (!at && __atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
        at = clock_ns() + DRAIN_MS * 1000000ull;
    return at;
}

static bool read_between(struct relaxed relaxed, struct stamp *s) {
    bool read = capture_allows(relaxed) && stamp_read(s);
    capture_let_begin();
    return read;
}

static void *read_stamps(void *unused) {
    struct relaxed relaxed = capture_relax();
    for (struct stamp *s; (s = take_first()) || !deadline();) {
        if (!s)
            thread_sleep(POLL_US);
        while (s && !read_between(relaxed, s) && !(deadline() && clock_ns() > deadline()))
            thread_sleep(POLL_US);
    }
    return unused;
}

void timing_start(void) {
    running = background_start(&reader, read_stamps, NULL) == 0;
    if (running)
        pthread_setname_np(reader, "ulms-timing");
}

void timing_stop(void) {
    lock_take(&lock);
    bool join = running;
    running = false;
    lock_drop(&lock);
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    if (join && !background_join(reader, clock_ns() + 2 * DRAIN_MS * 1000000ull))
        log_warn("times of the last operations are missing in the trace: the driver keeps the thread that reads them");
}
