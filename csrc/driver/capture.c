#include "driver/capture.h"

#include <stdlib.h>

#include "base/hot.h"
#include "base/lock.h"
#include "base/patience.h"
#include "base/thread.h"
#include "driver/context.h"
#include "driver/fast_path.h"
#include "driver/node.h"
#include "driver/session.h"

/* How long a capture that begins waits for somebody who has just been told that there is none: so long in any case, and
 * longer while he has not said that his call is over, as he may be kept from running. What lasts longer waits for work
 * of the program's: once that was seen, no capture waits for it again. */
enum { ENTRY_NS = 10000000, CALL_NS = 500000000 };

enum { TRIES = 3 };

HOT_DATA int captures_open;
static uint64_t kept_off_since;
static uint32_t kept_off;       /* by so many threads */
static uint32_t kept_too_long;  /* by so many of them */
static __thread bool keeps_off; /* this one */
static struct lock lock;        /* of the list and of the count */
static struct capture *list;

bool capture_keep_off(void) {
    if (capture_any())
        return false;
    if (!keeps_off)
        __atomic_add_fetch(&kept_off, 1, __ATOMIC_SEQ_CST);
    keeps_off = true;
    __atomic_store_n(&kept_off_since, clock_ns(), __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&captures_open, __ATOMIC_SEQ_CST) == 0)
        return true;
    capture_let_begin();
    return false;
}

void capture_let_begin(void) {
    uint32_t left = keeps_off ? __atomic_sub_fetch(&kept_off, 1, __ATOMIC_SEQ_CST) : UINT32_MAX;
    keeps_off = false;
    if (left < __atomic_load_n(&kept_too_long, __ATOMIC_RELAXED))
        __atomic_store_n(&kept_too_long, left, __ATOMIC_RELAXED);
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
    capture_let_begin();
    if (r.on)
        exchange(&r.before);
}

static const void *this_thread(void) {
    static __thread char here;
    return &here;
}

bool capture_mine(void) {
    bool mine = false;
    if (!session_on || !capture_any()) /* not in a forked child either, where another thread may have locked it */
        return false;
    lock_take(&lock);
    for (const struct capture *c = list; c && !mine; c = c->next)
        mine = c->thread == this_thread();
    lock_drop(&lock);
    return mine;
}

/* False: the driver does not say. */
static bool capture_ask(uint64_t stream, bool *holds) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = REAL(cuStreamIsCapturing, 0)((CUstream)(uintptr_t)stream, &status);
    *holds = result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
    /* the legacy stream answers so while a blocking stream captures; the real call will, too */
    return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

bool capture_holds(uint64_t stream) {
    bool holds;
    if (capture_ask(stream, &holds))
        return holds;
    if (session.capture_unknown)
        session.capture_unknown();
    return true;
}

bool capture_is_said(uint64_t stream) {
    bool holds;
    return capture_ask(stream, &holds) && holds;
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

/* How many are open, and whether that closes the fast path, change together. */
static void count(int more) {
    if (!session_on)
        return;
    lock_take(&lock);
    int n = __atomic_load_n(&captures_open, __ATOMIC_RELAXED) + more;
    if (n > 0)
        fast_path_leave(SLOW_CAPTURE);
    if (n >= 0)
        __atomic_store_n(&captures_open, n, __ATOMIC_SEQ_CST);
    if (n == 0)
        fast_path_restore(SLOW_CAPTURE);
    lock_drop(&lock);
}

void capture_put_back(struct capture *c) {
    lock_take(&lock);
    c->next = list;
    list = c;
    lock_drop(&lock);
}

/* The per-thread streams have one name. */
static bool is_of(const struct capture *c, uint64_t stream, uint64_t context) {
    bool own = stream == (uintptr_t)CU_STREAM_PER_THREAD;
    return stream ? c->stream == stream && (!own || c->thread == this_thread()) : c->context == context;
}

/* One of the stream; 0: of the context. NULL: there is none. */
static struct capture *take_out(uint64_t stream, uint64_t context) {
    struct capture **at = &list, *found;
    if (!session_on || !capture_any())
        return NULL;
    lock_take(&lock);
    while (*at && !is_of(*at, stream, context))
        at = &(*at)->next;
    if ((found = *at))
        *at = found->next;
    lock_drop(&lock);
    return found;
}

struct capture *capture_take(uint64_t stream) {
    return take_out(stream, 0);
}

void capture_over(struct capture *c) {
    free(c);
    count(-1);
}

void capture_forget(uint64_t context) {
    for (struct capture *c; (c = take_out(0, context));)
        capture_over(c);
}

static bool may_begin(void) {
    uint32_t calls = __atomic_load_n(&kept_off, __ATOMIC_SEQ_CST);
    uint64_t since = __atomic_load_n(&kept_off_since, __ATOMIC_SEQ_CST), now = since ? clock_ns() : 0;
    if (!since || calls <= __atomic_load_n(&kept_too_long, __ATOMIC_RELAXED))
        return !since || now >= since + ENTRY_NS;
    if (now < since + CALL_NS)
        return false;
    __atomic_store_n(&kept_too_long, calls, __ATOMIC_RELAXED);
    return true;
}

static uint64_t context_of(int variant, CUstream stream) {
    CUcontext context;
    if (!session_on)
        return 0;
    bool told = REAL(cuStreamGetCtx, variant)(stream, &context) == CUDA_SUCCESS;
    return told ? (uint64_t)(uintptr_t)context : context_current();
}

struct capture capture_begins(int variant, CUstream stream) {
    count(1);
    struct patience need = {.what = PATIENCE_NEED};
    while (!may_begin() && patience_rest(&need))
        ;
    return (struct capture){
        .stream = stream_key(variant, stream), .context = context_of(variant, stream), .thread = this_thread()};
}

/* One that there is no memory for stays open: nothing of ours is issued any more. */
CUresult capture_begun(CUresult status, struct capture new) {
    struct capture *c = status == CUDA_SUCCESS && session_on ? malloc(sizeof *c) : NULL;
    if (c) {
        *c = new;
        capture_put_back(c);
    }
    if (status != CUDA_SUCCESS)
        count(-1);
    return status;
}

bool capture_goes_on(uint64_t stream) {
    CUstreamCaptureStatus now;
    for (int i = 0; i < TRIES; i++)
        if (REAL(cuStreamIsCapturing, 0)((CUstream)(uintptr_t)stream, &now) == CUDA_SUCCESS)
            return now != CU_STREAM_CAPTURE_STATUS_NONE;
    return true;
}
