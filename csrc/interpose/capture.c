#include "interpose/capture.h"

#include <pthread.h>
#include <time.h>

#include "base/hot.h"
#include "base/thread.h"
#include "interpose/node.h"
#include "interpose/rest.h"
#include "interpose/session.h"

/* How long a capture that begins waits for somebody who has just been told that there is none. */
#define ENTRY_NS 10000000ull

enum { TRIES = 3 };

HOT_DATA int captures_open;
static uint64_t kept_off_until;
static __thread int begun_here; /* captures that this thread began and did not end */

bool capture_keep_off(void) {
    if (capture_any())
        return false;
    __atomic_store_n(&kept_off_until, clock_ns() + ENTRY_NS, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&captures_open, __ATOMIC_SEQ_CST) == 0;
}

static bool exchange(CUstreamCaptureMode *mode) {
    bool done = false;
    for (int i = 0; i < TRIES && !done; i++)
        done = REAL(cuThreadExchangeStreamCaptureMode, 0)(mode) == CUDA_SUCCESS;
    return done;
}

struct relaxed capture_relax(void) {
    struct relaxed r = {.before = CU_STREAM_CAPTURE_MODE_RELAXED};
    r.on = exchange(&r.before);
    return r;
}

void capture_restore(struct relaxed r) {
    if (r.on)
        exchange(&r.before);
}

bool capture_mine(void) {
    if (!capture_any())
        begun_here = 0; /* another thread ended them */
    return begun_here > 0;
}

bool capture_holds(uint64_t stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = REAL(cuStreamIsCapturing, 0)((CUstream)(uintptr_t)stream, &status);
    if (result == CUDA_SUCCESS)
        return status != CU_STREAM_CAPTURE_STATUS_NONE;
    /* the legacy stream answers so while a blocking stream captures; the real call will, too */
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return false;
    if (session.backend->unsure)
        session.backend->unsure();
    return true;
}

/* What orders streams makes no node, but for a wait for a word: the newest one is an earlier operation's. */
static bool makes_node(const struct op *op) {
    bool orders = op->kind == OP_RECORD || op->kind == OP_AFTER || op->kind == OP_WAIT;
    return !orders || op->count > 0;
}

void capture_note(const struct op *op) {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *newest;
    size_t n = 0;
    const CUgraphEdgeData *edges;
    CUstream stream = (CUstream)(uintptr_t)op->stream;
    if (!makes_node(op))
        return;
    /* the older question is refused where an edge carries data, as programmatic launches make them; older drivers have
     * no other */
    CUresult result = REAL(cuStreamGetCaptureInfo_v3, 0)(stream, &status, &id, &graph, &newest, &edges, &n);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = REAL(cuStreamGetCaptureInfo_v2, 0)(stream, &status, &id, &graph, &newest, &n);
    if (result == CUDA_SUCCESS && n == 1)
        node_note(newest[0], op);
}

/* How many are open, and whether that breaks the rest, change together. */
static void count(int more) {
    static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
    if (!session_on) /* in a forked child, too, where another thread may have locked it */
        return;
    pthread_mutex_lock(&counting);
    int n = __atomic_load_n(&captures_open, __ATOMIC_RELAXED) + more;
    if (n > 0)
        rest_break(UNREST_CAPTURE);
    if (n >= 0)
        __atomic_store_n(&captures_open, n, __ATOMIC_SEQ_CST);
    if (n == 0)
        rest_mend(UNREST_CAPTURE);
    pthread_mutex_unlock(&counting);
}

static void begins(void) {
    count(1);
    uint64_t until = __atomic_load_n(&kept_off_until, __ATOMIC_SEQ_CST), now = until ? clock_ns() : 0;
    if (now < until)
        nanosleep(&(struct timespec){0, (long)(until - now)}, NULL);
}

static CUresult begun(CUresult status) {
    if (status == CUDA_SUCCESS)
        begun_here++;
    else
        count(-1);
    return status;
}

/* A capture ends also when the driver says that it had become invalid. */
static CUresult ended(CUresult status) {
    if (status == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || status == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED ||
        status == CUDA_ERROR_ILLEGAL_STATE)
        return status;
    begun_here -= begun_here > 0;
    count(-1);
    return status;
}

CUresult custom_cuStreamBeginCapture_v2(int variant, CUstream hStream, CUstreamCaptureMode mode) {
    begins();
    return begun(REAL(cuStreamBeginCapture_v2, variant)(hStream, mode));
}

CUresult custom_cuStreamBeginCapture(int variant, CUstream hStream) {
    begins();
    return begun(REAL(cuStreamBeginCapture, variant)(hStream));
}

CUresult custom_cuStreamBeginCaptureToGraph(int variant, CUstream hStream, CUgraph hGraph,
                                            const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                            size_t numDependencies, CUstreamCaptureMode mode) {
    begins();
    return begun(REAL(cuStreamBeginCaptureToGraph, variant)(hStream, hGraph, dependencies, dependencyData,
                                                            numDependencies, mode));
}

CUresult custom_cuStreamBeginRecaptureToGraph(int variant, CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                              CUgraphRecaptureCallback callbackFunc, void *userData) {
    begins();
    return begun(REAL(cuStreamBeginRecaptureToGraph, variant)(hStream, mode, hGraph, callbackFunc, userData));
}

CUresult custom_cuStreamEndCapture(int variant, CUstream hStream, CUgraph *phGraph) {
    return ended(REAL(cuStreamEndCapture, variant)(hStream, phGraph));
}
