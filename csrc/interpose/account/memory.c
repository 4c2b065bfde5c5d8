#include "interpose/account/memory.h"

#include "base/capacity.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/page.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/grains.h"
#include "interpose/account/reserved.h"
#include "interpose/replace/deferred_free.h"
#include "interpose/replace/ipc.h"
#include "interpose/replace/own.h"
#include "interpose/replace/provide.h"
#include "interpose/replace/virtual_handle.h"
#include "interpose/wrappers/array.h"
#include "interpose/wrappers/pool.h"
#include "observe/stats.h"
#include "observe/trace.h"

/* Threads may get here in another order than they changed the ledger: the last one to write must have seen it as it is.
 */
void memory_publish(int device) {
    static struct lock lock;
    if (device < 0)
        return;
    lock_take(&lock);
    stats_memory(device, ledger_used(session.ledger, device), ledger_peak(session.ledger, device), capacity_of(device));
    lock_drop(&lock);
}

/* The whole grains that nothing else shares. What was provided has its last one for itself. */
static struct range {
    addr_t start, end;
} grains_of(const struct allocation *a) {
    uint64_t bytes = a->kind == MEMORY_MANAGED ? a->bytes : whole_grains(a->bytes);
    return (struct range){whole_grains(a->start), (a->start + bytes) / PAGE_LEAST * PAGE_LEAST};
}

static void arrive(const struct allocation *a) {
    struct range r = grains_of(a);
    if (r.start < r.end)
        session.backend->arrived(r.start, r.end - r.start, a->device);
}

void memory_leave(const struct allocation *gone) {
    struct range r = grains_of(gone);
    if (r.start < r.end)
        session.backend->freeing(r.start, r.end - r.start);
}

bool memory_free_deferred(const struct allocation *gone, bool unused) {
    struct range r = grains_of(gone);
    if (session.backend->free_deferred)
        return session.backend->free_deferred(r.start, r.end - r.start, unused);
    memory_leave(gone);
    return true;
}

void memory_credit(const struct allocation *gone) {
    bool plain = !gone->managed && (gone->kind == MEMORY_PLAIN || gone->kind == MEMORY_PITCH);
    if (plain && grains_shared(gone->bytes))
        ledger_credit(session.ledger, gone->device, grains_leave(gone->device, gone->start, gone->bytes));
    else
        ledger_freed(session.ledger, gone);
    memory_publish(gone->device);
}

static bool take_out(addr_t start, struct allocation *gone, bool later) {
    if (!ledger_remove(session.ledger, start, gone))
        return false;
    if (gone->kind == MEMORY_ASYNC && gone->managed)
        pool_left(start);
    else if (gone->kind == MEMORY_ASYNC)
        reserved_freed(start, gone->bytes);
    if (gone->managed && !(later && provided(gone)))
        memory_leave(gone);
    stats_add(COUNT_frees, 1);
    memory_publish(gone->device);
    if (trace_on)
        trace_allocation(gone, false);
    return true;
}

static bool allocation_take(addr_t start, struct allocation *gone) {
    return take_out(start, gone, false);
}

/* The driver has just given this range out, so what the ledger still has of it is gone: its free was never seen. */
static void take_stale(addr_t start, uint64_t bytes) {
    struct allocation a;
    while (ledger_find(session.ledger, start, &a) ||
           (ledger_list(session.ledger, start, &a, 1) == 1 && a.start < start + bytes)) {
        log_debug("allocation at 0x%llx was freed unseen", (unsigned long long)a.start);
        if (!allocation_take(a.start, &a))
            return;
        memory_credit(&a);
    }
}

bool memory_enter(struct allocation *a) {
    if (!ledger_add(session.ledger, a)) {
        take_stale(a->start, a->bytes);
        if (!ledger_add(session.ledger, a)) {
            log_error("no memory to record an allocation of %llu bytes: it is not seen", (unsigned long long)a->bytes);
            return false;
        }
    }
    if (a->managed)
        arrive(a);
    stats_add(COUNT_allocations, 1);
    memory_publish(a->device);
    if (trace_on)
        trace_allocation(a, true);
    return true;
}

void dealloc_open(struct dealloc *p, addr_t start) {
    p->recorded = session_on && start && allocation_take(start, &p->gone);
}

void dealloc_open_deferred(struct dealloc *p, addr_t start) {
    p->recorded = session_on && start && take_out(start, &p->gone, true);
}

CUresult dealloc_close(const struct dealloc *p, CUresult status) {
    if (p->recorded && status != CUDA_SUCCESS) {
        ledger_restore(session.ledger, &p->gone);
        memory_publish(p->gone.device);
        if (trace_on)
            trace_allocation(&p->gone, true);
    } else if (p->recorded) {
        memory_credit(&p->gone);
    }
    return status;
}

void memory_note(addr_t start, uint64_t bytes, enum memory_kind kind, uint64_t owner) {
    struct allocation known, a = {.start = start, .bytes = bytes, .context = owner, .kind = kind};
    if (!session_on || !start || !bytes || (ledger_find(session.ledger, start, &known) && known.bytes == bytes))
        return;
    a.device = context_device();
    memory_enter(&a);
}

static bool released(addr_t start, uint64_t context, int32_t *status) {
    return session.backend && session.backend->release && session.backend->release(start, context, status);
}

CUresult memory_free(int variant, addr_t start, uint64_t context) {
    int32_t status;
    return released(start, context, &status) ? (CUresult)status : REAL(cuMemFree_v2, variant)(start);
}

bool memory_free_in(addr_t start, uint64_t context) {
    struct context_visit visit;
    if (context_visit(&visit, (CUcontext)(uintptr_t)context) != CUDA_SUCCESS)
        return false;
    CUresult status = memory_free(0, start, context);
    if (status != CUDA_SUCCESS)
        log_debug("a free of 0x%llx failed with error %d", (unsigned long long)start, (int)status);
    context_visited(&visit);
    return true;
}

void memory_gone(const struct allocation *gone) {
    int32_t status;
    released(gone->start, 0, &status);
    memory_credit(gone);
}

/* What the program maps itself is no context's; but the memory of a space is. */
static bool goes_with(const struct allocation *a, uint64_t owner) {
    return a->context == owner && (a->kind != MEMORY_VMM || (a->managed && !own_on()));
}

void memory_forget(uint64_t owner) {
    struct allocation list[LEDGER_LISTED], gone;
    addr_t from = 0;
    if (!session_on)
        return;
    deferred_forget(owner);
    virtual_handle_forget(owner);
    array_forget(owner);
    ipc_forget(owner);
    for (size_t n; (n = ledger_list(session.ledger, from, list, LEDGER_LISTED)) > 0; from = list[n - 1].start + 1)
        for (size_t i = 0; i < n; i++)
            if (goes_with(&list[i], owner) && allocation_take(list[i].start, &gone))
                gone.managed ? memory_gone(&gone) : memory_credit(&gone);
}

/* The driver knows how far it reaches. */
void memory_note_imported(addr_t address) {
    CUdeviceptr start;
    size_t bytes;
    if (session_on && REAL(cuMemGetAddressRange_v2, 0)(&start, &bytes, address) == CUDA_SUCCESS)
        memory_note(start, bytes, MEMORY_IPC, context_current());
}
