/* Remapped memory in the place of plain memory: how it comes and goes. */
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/pager.h"
#include "backend/vmm.h"
#include "backend/vmm_verify.h"
#include "base/log.h"
#include "interpose/capture.h"
#include "interpose/session.h"
#include "observe/stats.h"

/* --- devices --- */

static bool can_serve(int32_t device) {
    if (pager_device_has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
        pager_device_has(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device))
        return true;
    log_warn("device %d cannot map host memory by handles: nothing is replaced there, as with ULMS_BACKEND=observe",
             device);
    return false;
}

bool vmm_serves(int32_t device) {
    return pager_serves(device, can_serve);
}

static struct vmm *memory_new(int32_t device) {
    static struct vmm_limit host_limit = VMM_LIMIT_NONE;
    struct vmm *v = malloc(sizeof *v);
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    size_t bytes = session.managed_limit;
    int node;
    if (REAL(cuDeviceGetAttribute, 0)(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node > 0)
        host.id = node;
    if (!bytes)
        REAL(cuDeviceTotalMem_v2, 0)(&bytes, device);
    vmm_limit_set(&host_limit, bytes);
    if (v && vmm_open(v, device, host, &host_limit))
        return v;
    free(v);
    return NULL;
}

/* NULL: there is none, and perhaps none can be had. */
static struct vmm *memory_of(const struct pager *d) {
    return d ? __atomic_load_n(&d->vmm, __ATOMIC_ACQUIRE) : NULL;
}

static struct vmm *memory_make(struct pager *d) {
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    if (!d->vmm)
        __atomic_store_n(&d->vmm, memory_new(d->ordinal), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&making);
    return d->vmm;
}

struct vmm_range *vmm_find(addr_t p, struct pager **device) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        struct vmm *v = memory_of(d);
        struct vmm_range *r = v ? vmm_range_find(v, p) : NULL;
        *device = d;
        if (r)
            return r;
    }
    return NULL;
}

uint64_t vmm_occupied(const struct pager *d) {
    const struct vmm *v = memory_of(d);
    return v ? vmm_pool_bytes(&v->pool[VMM_DEVICE]) : 0;
}

uint64_t vmm_held(int32_t device) {
    uint64_t bytes = 0;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        bytes += d->ordinal == device ? vmm_occupied(d) : 0;
    return bytes;
}

bool vmm_relieve(int32_t device) {
    struct pager *d = pager_of(device);
    uint64_t before = vmm_occupied(d);
    struct pager_visit v = pager_enter(NULL);
    if (before > 0 && capture_allows(v.relaxed))
        vmm_give_back(d, 0);
    pager_leave(v);
    return vmm_occupied(d) < before;
}

/* --- memory that goes --- */

enum { TRIES = 3 };

static pthread_mutex_t parking = PTHREAD_MUTEX_INITIALIZER;
static struct vmm_range *parked; /* what could not be waited for when it was freed */

/* Waits for the context, as the driver's free does, but spoils no capture. */
static bool wait_for(uint64_t context, CUresult *status) {
    struct pager_visit v = pager_enter((CUcontext)(uintptr_t)context);
    bool done = false;
    for (int i = 0; i < TRIES && !done && pager_current() == (CUcontext)(uintptr_t)context && capture_keep_off(); i++) {
        *status = REAL(cuCtxSynchronize, 0)();
        done = *status == CUDA_SUCCESS;
    }
    pager_leave(v);
    return done;
}

static void end_range(struct pager *d, struct vmm_range *r) {
    pager_lock(d);
    bool moves = pager_moves_any(d, r->start, r->bytes); /* the process ends, and nobody waited */
    d->left -= r->aside;
    pager_budget_update(d);
    uint64_t most = d->budget.bytes + d->left + d->fixed;
    pager_unlock(d);
    if (moves)
        return;
    vmm_range_delete(d->vmm, r);
    vmm_pool_trim(&d->vmm->pool[VMM_DEVICE], most);
}

static void park(struct vmm_range *r, uint64_t context) {
    pthread_mutex_lock(&parking);
    r->parked = true;
    r->context = context;
    r->next = parked;
    __atomic_store_n(&parked, r, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&parking);
}

static struct vmm_range *take_parked(void) {
    pthread_mutex_lock(&parking);
    struct vmm_range *list = parked;
    __atomic_store_n(&parked, NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&parking);
    return list;
}

static void end_parked(void) {
    struct pager *d;
    CUresult status;
    if (!__atomic_load_n(&parked, __ATOMIC_RELAXED) || capture_any())
        return;
    for (struct vmm_range *r = take_parked(), *next; r; r = next) {
        next = r->next;
        if (r->context && !wait_for(r->context, &status))
            park(r, r->context);
        else if (vmm_find(r->start, &d) == r)
            end_range(d, r);
    }
}

void vmm_forget(uint64_t context) {
    pager_forget(context);
    pthread_mutex_lock(&parking);
    for (struct vmm_range *r = parked; r; r = r->next)
        r->context = r->context == context ? 0 : r->context;
    pthread_mutex_unlock(&parking);
}

/* A context that is lost to an error tells it at every call. */
static bool is_lost(CUresult status) {
    return status >= CUDA_ERROR_ILLEGAL_ADDRESS && status < CUDA_ERROR_UNKNOWN;
}

bool vmm_free(addr_t start, uint64_t context, int32_t *status) {
    struct pager *d;
    CUresult waited = CUDA_SUCCESS;
    struct vmm_range *r = vmm_find(start, &d);
    if (!r || r->start != start || r->parked)
        return false;
    if (!context || wait_for(context, &waited))
        end_range(d, r);
    else
        park(r, context);
    *status = (int32_t)(is_lost(waited) ? waited : CUDA_SUCCESS);
    return true;
}

/* --- memory that comes --- */

enum { NEARLY_ALL = 4 }; /* all but one in so many: soon there may be more than fits */

bool vmm_provide(addr_t *start, uint64_t bytes, int32_t device) {
    struct pager *d = pager_of(device);
    if (!d || !memory_make(d))
        return false;
    end_parked();
    pager_lock(d);
    bool fits = !d->moving && d->bytes + bytes <= d->budget.bytes + d->fixed;
    if (d->bytes + bytes > d->budget.bytes / NEARLY_ALL * (NEARLY_ALL - 1))
        vmm_maker_start(d);
    pager_unlock(d);
    struct pager_visit v = pager_enter(NULL);
    struct vmm_range *r = capture_allows(v.relaxed) ? vmm_range_new(d->vmm, bytes, fits, d->run_pages) : NULL;
    pager_leave(v);
    if (r)
        *start = r->start;
    return r != NULL;
}

/* What the program asked to be managed is the driver's. */
void vmm_arrived(addr_t start, uint64_t bytes, int32_t device) {
    struct pager *d;
    struct vmm_range *r = vmm_find(start, &d);
    if (!r)
        return;
    if (vmm_verifies()) { /* before it can move */
        struct pager_visit v = pager_enter(NULL);
        if (capture_allows(v.relaxed))
            vmm_verify_new(d->vmm, r);
        pager_leave(v);
    }
    pager_arrived(start, bytes, device);
}

/* A page that could not be had on the device makes the engine rule before the budget is used up. */
void vmm_arrives(struct pager *d, addr_t start, uint64_t bytes, bool fits) {
    struct vmm_range *r = vmm_range_find(d->vmm, start);
    uint64_t there = 0;
    if (!r)
        return;
    d->left -= r->aside;
    r->aside = 0;
    /* freed in stream order while it was away, it was in no list when all that is away was mapped */
    vmm_range_surface(d->vmm, r, 0, bytes / page_bytes);
    for (size_t i = 0; i < bytes / page_bytes; i++) {
        if (r->page[i].at != VMM_DEVICE)
            continue;
        ulms_engine_placed(d->engine, start + i * page_bytes, page_bytes);
        there += page_bytes;
    }
    pager_budget_update(d);
    if (fits && there < bytes && !d->moving && !d->over)
        pager_start_moving(d, 0);
    stats_add(COUNT_placed_bytes, there);
}

/* Until it is released, or comes again, it occupies what it has of the device. */
void vmm_leaving(addr_t start, uint64_t bytes) {
    struct pager *d;
    pager_leaving(start, bytes);
    struct vmm_range *r = vmm_find(start, &d);
    if (!r)
        return;
    pager_lock(d);
    for (size_t i = 0; i < r->bytes / page_bytes; i++) {
        bool there = r->page[i].at == VMM_DEVICE;
        d->fixed -= there && r->page[i].fixed ? page_bytes : 0;
        r->aside += there ? page_bytes : 0;
        r->page[i].fixed = false;
    }
    d->left += r->aside;
    pager_budget_update(d);
    pager_unlock(d);
}
