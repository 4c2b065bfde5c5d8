/* Remapped memory in the place of plain memory: what this backend does in its own way. README.md has what it
 * guarantees.
 *
 * An operation's pages are pinned from its admission to its end: they are not mapped anew meanwhile. So all that may be
 * touched has to be known, or must not move. */
#include "backend/vmm.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "backend/um.h"
#include "base/log.h"
#include "interpose/capture.h"
#include "interpose/session.h"
#include "launch/op.h"
#include "observe/stats.h"

/* --- devices --- */

enum serves { UNASKED, SERVED, UNSERVED };

static bool has(CUdevice_attribute attribute, int32_t device) {
    int can = 0;
    return REAL(cuDeviceGetAttribute, 0)(&can, attribute, device) == CUDA_SUCCESS && can;
}

static enum serves ask(int32_t device) {
    if (has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
        has(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device))
        return SERVED;
    log_warn("device %d cannot map host memory by handles: nothing is replaced there, as with ULMS_BACKEND=observe",
             device);
    return UNSERVED;
}

static bool serves(int32_t device) {
    static enum serves known[DEVICE_MAX];
    if (device < 0 || device >= DEVICE_MAX)
        return false;
    enum serves now = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (now == UNASKED) {
        now = ask(device);
        __atomic_store_n(&known[device], now, __ATOMIC_RELAXED);
    }
    return now == SERVED;
}

static struct vmm *memory_new(int32_t device) {
    struct vmm *v = malloc(sizeof *v);
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    size_t bytes = session.managed_limit;
    int node;
    if (REAL(cuDeviceGetAttribute, 0)(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node > 0)
        host.id = node;
    if (!bytes)
        REAL(cuDeviceTotalMem_v2, 0)(&bytes, device);
    if (v && vmm_open(v, device, host, bytes))
        return v;
    free(v);
    return NULL;
}

/* NULL: there is none, and perhaps none can be had. */
static struct vmm *memory_of(const struct um_device *d) {
    return d ? __atomic_load_n(&d->vmm, __ATOMIC_ACQUIRE) : NULL;
}

static struct vmm *memory_make(struct um_device *d) {
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    if (!d->vmm)
        __atomic_store_n(&d->vmm, memory_new(d->ordinal), __ATOMIC_RELEASE);
    pthread_mutex_unlock(&making);
    return d->vmm;
}

/* The range that holds p, and its device. */
static struct vmm_range *find(addr_t p, struct um_device **device) {
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        struct vmm *v = memory_of(d);
        struct vmm_range *r = v ? vmm_range_find(v, p) : NULL;
        *device = d;
        if (r)
            return r;
    }
    return NULL;
}

static uint64_t occupied(const struct um_device *d) {
    const struct vmm *v = memory_of(d);
    return v ? vmm_pool_bytes(&v->pool[VMM_DEVICE]) : 0;
}

static uint64_t held(int32_t device) {
    uint64_t bytes = 0;
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d))
        bytes += d->ordinal == device ? occupied(d) : 0;
    return bytes;
}

/* --- memory that goes --- */

enum { TRIES = 3 };

static pthread_mutex_t parking = PTHREAD_MUTEX_INITIALIZER;
static struct vmm_range *parked; /* what could not be waited for when it was freed */

/* Waits for the context, as the driver's free does, but spoils no capture. */
static bool wait_for(uint64_t context, CUresult *status) {
    struct um_visit v = um_enter((CUcontext)(uintptr_t)context);
    bool done = false;
    for (int i = 0; i < TRIES && !done && um_current() == (CUcontext)(uintptr_t)context && capture_keep_off(); i++) {
        *status = REAL(cuCtxSynchronize, 0)();
        done = *status == CUDA_SUCCESS;
    }
    um_leave(v);
    return done;
}

static void end_range(struct um_device *d, struct vmm_range *r) {
    um_lock(d);
    bool moves = um_moves_any(d, r->start, r->bytes); /* the process ends, and nobody waited */
    d->left -= r->aside;
    um_budget_update(d, false);
    uint64_t most = d->budget.bytes + d->left + d->fixed;
    um_unlock(d);
    if (moves)
        return;
    vmm_range_delete(d->vmm, r);
    vmm_pool_trim(&d->vmm->pool[VMM_DEVICE], most);
}

static void park(struct vmm_range *r, uint64_t context) {
    pthread_mutex_lock(&parking);
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
    struct um_device *d;
    CUresult status;
    if (!__atomic_load_n(&parked, __ATOMIC_RELAXED) || capture_any())
        return;
    for (struct vmm_range *r = take_parked(), *next; r; r = next) {
        next = r->next;
        if (r->context && !wait_for(r->context, &status))
            park(r, r->context);
        else if (find(r->start, &d) == r)
            end_range(d, r);
    }
}

static void forget(uint64_t context) {
    um_forget(context);
    pthread_mutex_lock(&parking);
    for (struct vmm_range *r = parked; r; r = r->next)
        r->context = r->context == context ? 0 : r->context;
    pthread_mutex_unlock(&parking);
}

/* A context that is lost to an error tells it at every call. */
static bool is_lost(CUresult status) {
    return status >= CUDA_ERROR_ILLEGAL_ADDRESS && status < CUDA_ERROR_UNKNOWN;
}

static bool release(addr_t start, uint64_t context, int32_t *status) {
    struct um_device *d;
    CUresult waited = CUDA_SUCCESS;
    struct vmm_range *r = find(start, &d);
    if (!r || r->start != start)
        return false;
    if (!context || wait_for(context, &waited))
        end_range(d, r);
    else
        park(r, context);
    *status = (int32_t)(is_lost(waited) ? waited : CUDA_SUCCESS);
    return true;
}

/* --- memory that comes --- */

static bool provide(addr_t *start, uint64_t bytes, int32_t device) {
    struct um_device *d = um_device_of(device);
    if (!d || !memory_make(d))
        return false;
    end_parked();
    um_lock(d);
    bool fits = !d->moving && d->bytes + bytes <= d->budget.bytes + d->fixed;
    um_unlock(d);
    struct um_visit v = um_enter(NULL);
    struct vmm_range *r = vmm_range_new(d->vmm, bytes, fits);
    um_leave(v);
    if (r)
        *start = r->start;
    return r != NULL;
}

/* What the program asked to be managed is the driver's. */
static void arrived(addr_t start, uint64_t bytes, int32_t device) {
    struct um_device *d;
    if (find(start, &d))
        um_arrived(start, bytes, device);
}

/* A page that could not be had on the device makes the engine rule before the budget is used up. */
static void place(struct um_device *d, addr_t start, uint64_t bytes, bool fits) {
    struct vmm_range *r = vmm_range_find(d->vmm, start);
    uint64_t there = 0;
    if (!r)
        return;
    um_lock(d);
    d->left -= r->aside;
    r->aside = 0;
    for (size_t i = 0; i < bytes / PAGE_BYTES; i++) {
        if (r->page[i].at != VMM_DEVICE)
            continue;
        ulms_engine_placed(d->engine, start + i * PAGE_BYTES, PAGE_BYTES);
        there += PAGE_BYTES;
    }
    um_budget_update(d, false);
    if (fits && there < bytes && !d->moving && !d->over)
        um_start_moving(d, 0);
    um_unlock(d);
    stats_add(COUNT_placed_bytes, there);
}

/* Until it is released, or comes again, it occupies what it has of the device. */
static void leaving(addr_t start, uint64_t bytes) {
    struct um_device *d;
    um_leaving(start, bytes);
    struct vmm_range *r = find(start, &d);
    if (!r)
        return;
    um_lock(d);
    for (size_t i = 0; i < r->bytes / PAGE_BYTES; i++) {
        bool there = r->page[i].at == VMM_DEVICE;
        d->fixed -= there && r->page[i].fixed ? PAGE_BYTES : 0;
        r->aside += there ? PAGE_BYTES : 0;
        r->page[i].fixed = false;
    }
    d->left += r->aside;
    um_budget_update(d, false);
    um_unlock(d);
}

/* --- operations --- */

/* An extent that is a guess from other pointers may be too small, and so may what a library told of another call. */
static bool is_guess(const struct touch *t, const struct op *op) {
    bool told = api_rows[op->api].library != LIBRARY_CUDA;
    return t->source == SOURCE_OBSERVED || (t->source == SOURCE_LIBRARY && !told);
}

/* All that an address may reach: the block that the framework told, or the allocation. */
static bool reach(addr_t p, addr_t *start, uint64_t *bytes) {
    struct allocation a;
    struct touch t;
    bool told = ledger_extent(session.ledger, p, &t) && t.source == SOURCE_FRAMEWORK;
    if (!told && !ledger_find(session.ledger, p, &a))
        return false;
    *start = told ? t.start : a.start;
    *bytes = told ? t.bytes : a.bytes;
    return true;
}

static size_t touches(struct um_device *d, const struct op *op) {
    um_touches(d, op);
    for (uint32_t i = 0; i < op->count; i++) {
        struct ulms_engine_touch *t = &d->touches[i];
        if (!is_guess(&op->touches[i], op) || !reach(op->touches[i].start, &t->start, &t->bytes))
            continue;
        if (t->mode != ULMS_TOUCH_READ) /* what it writes of the rest is not known */
            t->mode = ULMS_TOUCH_UPDATE;
    }
    return op->count;
}

/* A page of it may move. */
static bool moves(const struct um_device *d, const struct ulms_engine_touch *t) {
    struct vmm_range *r = um_page_at(&d->ranges, t->start) ? vmm_range_find(d->vmm, t->start) : NULL;
    addr_t end = t->start + t->bytes;
    for (addr_t p = t->start / PAGE_BYTES * PAGE_BYTES; r && p < end && p < r->start + r->bytes; p += PAGE_BYTES)
        if (!r->page[(p - r->start) / PAGE_BYTES].fixed)
            return true;
    return false;
}

/* Without the engine nothing pins its pages: then nothing may move any more, and what does has to end. */
static void passes(struct um_device *d, const struct op *op, uint64_t serial) {
    if (d->moving && serial)
        return;
    size_t n = touches(d, op);
    for (size_t i = 0; i < n && d->moving; i++)
        if (moves(d, &d->touches[i]))
            um_give_up(d, "no memory for an operation");
    for (size_t i = 0; i < n && !d->moving; i++) {
        touches(d, op); /* another operation's, after waiting */
        um_moves_wait(d, d->touches[i].start, d->touches[i].bytes, false);
    }
}

/* It may touch anything. */
static bool hides(const struct op *op) {
    return op->flags & OP_BLIND || op->count == TOUCH_MAX;
}

static void admit(struct op *op) {
    for (struct um_device *d = hides(op) ? um_device_next(NULL) : NULL; d; d = um_device_next(d)) {
        um_lock(d);
        um_give_up(d, "an operation does not show what it touches");
        d->over = true;
        um_moves_wait(d, 0, UINT64_MAX, false);
        um_unlock(d);
    }
    um_admit(op);
}

/* --- memory that stays where it is: addresses of it are on the device, so that any operation may use it --- */

/* From now on the engine does not know the pages of [start, end), which are of r. */
static void fix(struct um_device *d, struct vmm_range *r, addr_t start, addr_t end) {
    size_t first = (start - r->start) / PAGE_BYTES, last = (end - 1 - r->start) / PAGE_BYTES;
    addr_t from = r->start + first * PAGE_BYTES;
    uint64_t bytes = (last - first + 1) * PAGE_BYTES;
    um_lock(d);
    while (first <= last && r->page[first].fixed)
        first++;
    if (first <= last) {
        um_moves_wait(d, from, bytes, false);
        ulms_engine_freed(d->engine, from, bytes);
        for (; first <= last; first++) {
            d->fixed += !r->page[first].fixed && r->page[first].at == VMM_DEVICE ? PAGE_BYTES : 0;
            r->page[first].fixed = true;
        }
        um_budget_update(d, false);
        d->progress++;
        um_wake(d);
    }
    um_unlock(d);
}

static void pointed(const addr_t *pointers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct um_device *d;
        addr_t start;
        uint64_t bytes;
        struct vmm_range *r = find(pointers[i], &d);
        if (r && reach(pointers[i], &start, &bytes) && start >= r->start && start + bytes <= r->start + r->bytes)
            fix(d, r, start, start + bytes);
    }
}

/* --- moves --- */

static bool issue(struct um_device *d, const struct um_move *m, CUstream stream) {
    bool fill = m->m.kind == ULMS_FILL, ok = true;
    for (const struct um_piece *p = m->piece; p < m->piece + m->pieces; p++) {
        struct vmm_move one = {.start = p->start,
                               .bytes = p->bytes,
                               .to = fill ? VMM_DEVICE : VMM_HOST,
                               .copy = fill ? !(m->m.flags & ULMS_MOVE_DEAD) : !m->discard,
                               .clean = m->m.flags & ULMS_MOVE_CLEAN,
                               .keep = m->m.flags & ULMS_MOVE_KEEP};
        enum vmm_moved moved = vmm_move(d->vmm, &one, stream);
        ok = ok && moved == VMM_MOVED;
        if (moved != VMM_STUCK)
            continue;
        um_lock(d);
        um_give_up(d, "the driver does not tell what is copied");
        um_unlock(d);
    }
    return ok;
}

/* While one of a lane maps pages, the other's are copied. */
const struct um_kind um_remapped = {.over = "stays where it is, on the device or on the host",
                                    .movers = {4, {ULMS_LANE_IN, ULMS_LANE_OUT, ULMS_LANE_IN, ULMS_LANE_OUT}},
                                    .place = place,
                                    .occupied = occupied,
                                    .issue = issue,
                                    .touches = touches,
                                    .passes = passes};

const struct backend backend_vmm = {.name = "vmm",
                                    .admit = admit,
                                    .settle = um_settle,
                                    .serves = serves,
                                    .provide = provide,
                                    .arrived = arrived,
                                    .leaving = leaving,
                                    .release = release,
                                    .held = held,
                                    .pointed = pointed,
                                    .block = um_block,
                                    .forget = forget,
                                    .stop = um_stop};
