#include "interpose/replace/deferred_free.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "base/thread.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/reserved.h"

/* More than this is freed also where the program waits for streams alone. Under a limit it is less: what is discarded
 * stays on the device all the same. */
static uint64_t much(void) {
    uint64_t most = 1ull << 30, part = capacity_of(context_device()) / 16;
    return part && part < most ? part : most;
}

/* How long it looks at a time whether a context is busy. */
static const uint64_t slice_ns = 10000000;

struct deferred {
    struct allocation gone;
    uint64_t stream;     /* in whose order it was freed, as stream_key says */
    CUmemoryPool keeper; /* that keeps it, or NULL */
    CUevent used;        /* behind the last use; NULL: it could not be recorded, or its context is gone */
    uint64_t used_in;    /* the event's context */
    bool leaves;         /* which is being destroyed: nobody may use the event */
    bool unused;         /* the last use is over */
    bool told;           /* the backend knows */
    struct deferred *next;
};

static struct lock lock;    /* of the list; no call of the driver under it */
static struct lock freeing; /* of who takes out of the list, and of what is out */
static struct deferred *list;
static uint64_t waiting; /* bytes in the list that no pool keeps */
static uint64_t kept;    /* the others */
static uint64_t in_vain; /* so many waited when the context was found busy, or as few as waited since */

/* Under the lock. */
static void count(const struct deferred *e, bool in) {
    uint64_t *bytes = e->keeper ? &kept : &waiting;
    __atomic_store_n(bytes, in ? *bytes + e->gone.charged : *bytes - e->gone.charged, __ATOMIC_RELAXED);
}

static void put_in(struct deferred *e) {
    lock_take(&lock);
    e->next = list;
    __atomic_store_n(&list, e, __ATOMIC_RELAXED);
    count(e, true);
    lock_drop(&lock);
}

static bool any(void) {
    return __atomic_load_n(&list, __ATOMIC_RELAXED) != NULL;
}

uint64_t deferred_kept(void) {
    return __atomic_load_n(&kept, __ATOMIC_RELAXED);
}

/* Takes out all of the context, or of every one (0), that are of so many grains, or of any number (0). */
static struct deferred *take_out(uint64_t context, uint64_t grains) {
    struct deferred *taken = NULL;
    lock_take(&lock);
    for (struct deferred **at = &list; *at;) {
        struct deferred *e = *at;
        if ((context && e->gone.context != context) || (grains && whole_grains(e->gone.charged) != grains)) {
            at = &e->next;
            continue;
        }
        __atomic_store_n(at, e->next, __ATOMIC_RELAXED);
        e->next = taken;
        taken = e;
        count(e, false);
    }
    lock_drop(&lock);
    return taken;
}

static bool record_here(struct deferred *e, int variant, CUstream stream) {
    CUevent event;
    if (REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return false;
    if (REAL(cuEventRecord, variant)(event, stream) == CUDA_SUCCESS) {
        e->used = event;
        e->used_in = context_current();
        return true;
    }
    REAL(cuEventDestroy_v2, 0)(event);
    return false;
}

/* An event is recorded in streams of its own context only. */
static bool record(struct deferred *e, int variant, CUstream stream) {
    CUcontext before;
    bool recorded = record_here(e, variant, stream);
    if (recorded || !context_enter_stream(variant, stream, &before))
        return recorded;
    recorded = record_here(e, variant, stream);
    context_leave(before);
    return recorded;
}

/* What the driver says of a stream that it takes no event for: if it takes nothing else either, no free. */
static CUresult stream_ask(int variant, CUstream stream) {
    CUresult status = capture_any() ? CUDA_SUCCESS : REAL(cuStreamQuery, variant)(stream);
    return status == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : status;
}

bool deferred_free(const struct allocation *gone, struct stream_order order, CUmemoryPool keeper, CUresult *status) {
    struct deferred *e = malloc(sizeof *e);
    if (!e)
        return false;
    *e = (struct deferred){.gone = *gone, .keeper = keeper, .stream = stream_key(order.variant, order.stream)};
    *status = record(e, order.variant, order.stream) ? CUDA_SUCCESS : stream_ask(order.variant, order.stream);
    if (*status != CUDA_SUCCESS) {
        free(e);
        return true;
    }
    e->told = memory_free_deferred(gone, false);
    put_in(e);
    return true;
}

bool deferred_holds(addr_t p) {
    bool held = false;
    if (!session_on || !any())
        return false;
    lock_take(&lock);
    for (const struct deferred *e = list; e && !held; e = e->next)
        held = e->gone.start <= p && p - e->gone.start < whole_grains(e->gone.bytes);
    lock_drop(&lock);
    return held;
}

static bool done(struct deferred *e) {
    e->unused = e->unused || (e->used && !e->leaves && REAL(cuEventQuery, 0)(e->used) == CUDA_SUCCESS);
    return e->unused;
}

/* The backend frees without waiting for anybody. */
static bool frees_at_once(void) {
    return session.backend->release != NULL;
}

static void forget_event(const struct deferred *e) {
    if (e->used && !e->leaves)
        REAL(cuEventDestroy_v2, 0)(e->used);
}

/* What was freed by another thread's stream per thread, or one that is gone, has the same key: so the stream waits. */
static bool follows(struct deferred *e, const struct stream_order *order) {
    return done(e) || (e->used && !e->leaves &&
                       REAL(cuStreamWaitEvent, order->variant)(order->stream, e->used, 0) == CUDA_SUCCESS);
}

/* Of these. The first in memory, so that each allocation gets the address that it had where a program does the same
 * again. */
static struct deferred *choose(struct deferred *taken, const struct stream_order *order) {
    struct deferred *first_here = NULL;
    for (struct deferred *e = order ? taken : NULL; e; e = e->next)
        if (e->stream == stream_key(order->variant, order->stream) &&
            (!first_here || e->gone.start < first_here->gone.start))
            first_here = e;
    if (first_here && follows(first_here, order))
        return first_here;
    while (taken && !done(taken))
        taken = taken->next;
    return taken;
}

bool deferred_reuse(struct charge *c, int device, enum memory_kind kind, uint64_t bytes,
                    const struct stream_order *order, CUdeviceptr *dptr) {
    uint64_t context = any() ? context_current() : 0;
    if (!context || !lock_try(&freeing))
        return false;
    struct relaxed relaxed = capture_relax();
    struct deferred *taken = take_out(context, whole_grains(bytes));
    struct deferred *found = capture_allows(relaxed) ? choose(taken, order) : NULL;
    for (struct deferred *e = taken, *next; e; e = next) {
        next = e->next;
        if (e != found)
            put_in(e);
    }
    capture_restore(relaxed);
    lock_drop(&freeing);
    if (!found)
        return false;
    forget_event(found);
    *dptr = found->gone.start;
    *c = (struct charge){.recorded = true,
                         .managed = true,
                         .device = device,
                         .kind = kind,
                         .asked = bytes,
                         .bytes = bytes,
                         .context = context};
    charge_close(c, CUDA_SUCCESS, dptr, bytes);
    free(found);
    return true;
}

/* Without a wait where the backend frees at once what is not used any more. The driver's free waits for the context. */
static void free_now(struct deferred *e) {
    memory_leave(&e->gone);
    if (frees_at_once() && done(e)) {
        forget_event(e);
        memory_gone(&e->gone);
    } else if (memory_free_in(e->gone.start, e->gone.context)) {
        forget_event(e);
        memory_credit(&e->gone);
    } else {
        memory_gone(&e->gone);
    }
    free(e);
}

/* Of the context, or of every one (0): what is not used any more, or cannot tell. False: nothing. The caller holds
 * `freeing`. */
static bool free_some(uint64_t context, bool also_kept) {
    bool freed = false;
    if (capture_any())
        return false;
    struct relaxed relaxed = capture_relax();
    for (struct deferred *e = take_out(context, 0), *next; e; e = next) {
        next = e->next;
        if ((also_kept || !e->keeper) && capture_allows(relaxed) && ((context && !e->used) || done(e))) {
            free_now(e);
            freed = true;
        } else {
            put_in(e);
        }
    }
    capture_restore(relaxed);
    return freed;
}

/* What is not used any more takes no place that others need, while it cannot be freed. The caller holds `freeing`. */
static void tell_unused(void) {
    lock_take(&lock);
    struct deferred *e = list;
    lock_drop(&lock);
    while (e && e->told)
        e = e->next;
    if (!e)
        return;
    struct relaxed relaxed = capture_relax();
    for (; e; e = e->next)
        if (!e->told && capture_allows(relaxed) && done(e))
            e->told = memory_free_deferred(&e->gone, true);
    capture_restore(relaxed);
}

static bool idle(uint64_t context) {
    return context && context_idle((CUcontext)(uintptr_t)context, 0) == CUDA_SUCCESS;
}

/* A stream or an event was waited for. What runs in another stream may end only by what the program does next: so
 * nothing is freed that waits for it. */
static void free_without_wait(uint64_t bytes) {
    if (frees_at_once()) {
        free_some(0, false);
        return;
    }
    if (bytes <= __atomic_load_n(&in_vain, __ATOMIC_RELAXED) + much())
        return;
    uint64_t context = context_current();
    if (idle(context))
        free_some(context, false);
    __atomic_store_n(&in_vain, __atomic_load_n(&waiting, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void deferred_waited(uint64_t whole_context) {
    uint64_t bytes = __atomic_load_n(&waiting, __ATOMIC_RELAXED);
    bool tells = !frees_at_once() && session.backend->free_deferred && any() &&
                 __atomic_load_n(&backend_moves, __ATOMIC_RELAXED);
    reserved_look_again(context_device(), whole_context);
    if (whole_context && session.backend->context_synced)
        session.backend->context_synced(whole_context);
    if (bytes < __atomic_load_n(&in_vain, __ATOMIC_RELAXED))
        __atomic_store_n(&in_vain, bytes, __ATOMIC_RELAXED);
    bool frees = bytes > (whole_context || tells ? 0 : much());
    if (!(frees || tells) || !lock_try(&freeing))
        return;
    if (frees && whole_context)
        free_some(whole_context, false);
    else if (frees)
        free_without_wait(bytes);
    if (tells)
        tell_unused();
    lock_drop(&freeing);
}

void deferred_free_unused(void) {
    uint64_t context = frees_at_once() ? 0 : context_current();
    if (!lock_try(&freeing))
        return;
    if (frees_at_once() || idle(context))
        free_some(context, true);
    lock_drop(&freeing);
}

void deferred_unkeep(CUmemoryPool keeper) {
    lock_take(&freeing); /* nothing is out of the list */
    lock_take(&lock);
    for (struct deferred *e = list; e; e = e->next)
        if (e->keeper == keeper) {
            count(e, false);
            e->keeper = NULL;
            count(e, true);
        }
    lock_drop(&lock);
    lock_drop(&freeing);
    deferred_waited(0);
}

/* The one freed first, unless others of its size were reused since. The caller holds `freeing`. */
static struct deferred *oldest(void) {
    lock_take(&lock);
    struct deferred *e = list;
    while (e && e->next)
        e = e->next;
    lock_drop(&lock);
    return e;
}

/* Its last use is over, or nobody can tell. */
static bool over(struct deferred *e) {
    struct relaxed relaxed = capture_relax();
    bool is = !e->used || !capture_allows(relaxed) || done(e);
    capture_restore(relaxed);
    return is;
}

/* Something runs in its context, for which the driver's free would wait; or it is being destroyed. */
static bool held_up(const struct deferred *e) {
    if (frees_at_once())
        return false;
    CUresult status = context_idle((CUcontext)(uintptr_t)e->gone.context, slice_ns);
    return status == CUDA_ERROR_NOT_READY || status == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Whoever else needs `freeing` gets it in between: what is waited for may end by what that thread does next. For the
 * last use the driver waits, too; for what else the context does it would not. */
bool free_oldest(void) {
    const struct deferred *before = NULL;
    bool was_unused = false;
    struct patience patience;
    for (;;) {
        lock_take(&freeing);
        struct deferred *e = capture_any() ? NULL : oldest();
        bool unused = e && over(e), goes = unused && !held_up(e);
        bool freed = goes && free_some(e->gone.context, true);
        lock_drop(&freeing);
        if (!e || goes)
            return freed;
        if (e != before || unused != was_unused)
            patience = (struct patience){.what = unused ? PATIENCE_WISH : PATIENCE_STEAD};
        if (!patience_rest(&patience))
            return false;
        before = e;
        was_unused = unused;
    }
}

void deferred_leaves(uint64_t context, bool leaves) {
    lock_take(&freeing);
    lock_take(&lock);
    for (struct deferred *e = list; e; e = e->next)
        e->leaves = e->used_in == context ? leaves : e->leaves;
    lock_drop(&lock);
    lock_drop(&freeing);
}

/* What is of an unknown context may be of this one. */
void deferred_forget(uint64_t context) {
    lock_take(&freeing);
    for (struct deferred *e = take_out(0, 0), *next; e; e = next) {
        next = e->next;
        if (e->used_in == context) {
            e->used = NULL;
            e->unused = true;
        }
        if (e->gone.context && e->gone.context != context) {
            put_in(e);
            continue;
        }
        forget_event(e);
        memory_leave(&e->gone);
        memory_gone(&e->gone);
        free(e);
    }
    lock_drop(&freeing);
}
