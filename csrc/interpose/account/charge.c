/* Accounting: promise, real call, commit or roll back. What a device holds is counted as the driver takes it, and what
 * is only asked for counts for nobody else. */
#include "interpose/account/charge.h"

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/page.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/grains.h"
#include "interpose/account/reserved.h"
#include "interpose/replace/deferred_free.h"
#include "interpose/replace/virtual_handle.h"
#include "observe/stats.h"

static __thread struct charge under_way; /* the thread's, until the real call has answered */

void charge_keep(const struct charge *c) {
    under_way = *c;
}

/* Where memory of this kind can be replaced, what stays plain takes from what pages may occupy and is not refused. */
static bool limited(int device, enum memory_kind kind) {
    bool replaced = kind == MEMORY_PLAIN || kind == MEMORY_PITCH || kind == MEMORY_ASYNC || kind == MEMORY_GRAPH ||
                    (kind == MEMORY_VMM && virtual_handle_may_be());
    return capacity_of(device) && (!replaced || !session.backend->serves(device));
}

bool charge_limited(int device, enum memory_kind kind) {
    return session_on && limited(device, kind);
}

static uint64_t device_bytes(int device) {
    static uint64_t known[DEVICE_MAX];
    size_t total = 0;
    if (device < 0 || device >= DEVICE_MAX)
        return UINT64_MAX;
    uint64_t bytes = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (bytes || REAL(cuDeviceTotalMem_v2, 0)(&total, device) != CUDA_SUCCESS)
        return bytes ? bytes : UINT64_MAX;
    __atomic_store_n(&known[device], total, __ATOMIC_RELAXED);
    return total;
}

void charge_refuse(struct charge *c, uint64_t bytes) {
    static bool told;
    uint64_t held = ledger_used(session.ledger, c->device), limit = capacity_of(c->device);
    c->status = CUDA_ERROR_OUT_OF_MEMORY;
    stats_add(COUNT_refused, 1);
    if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_info("%llu bytes refused: device %d holds %llu of %llu", (unsigned long long)bytes, c->device,
                 (unsigned long long)held, (unsigned long long)limit);
    else
        log_warn("%llu bytes refused as out of memory, ULMS_GPU_MEMORY=%llu, of which %llu are held on device %d; if "
                 "the program cannot do with less: %s",
                 (unsigned long long)bytes, (unsigned long long)limit, (unsigned long long)held, c->device,
                 session.backend->provide ? "memory of this kind does not move, allow more"
                                          : "ULMS_BACKEND=um would make room, observe moves nothing");
}

static bool shares_grains(enum memory_kind kind, uint64_t bytes) {
    return (kind == MEMORY_PLAIN || kind == MEMORY_PITCH) && grains_shared(bytes);
}

/* What no device holds is the driver's to refuse, with the error that it has for that. Without a promise what is small
 * may still find room in a grain that others have opened. */
static bool open(struct charge *c, int device, enum memory_kind kind, uint64_t bytes) {
    *c = (struct charge){.recorded = session_on, .device = device, .kind = kind, .asked = bytes};
    if (!c->recorded || !bytes || !limited(device, kind) || bytes > device_bytes(device))
        return true;
    uint64_t taken = whole_grains(bytes);
    if (reserved_make_room(device, kind, taken))
        c->bytes = taken;
    else if (!shares_grains(kind, bytes) || !grains_have_room(device, bytes))
        charge_refuse(c, bytes);
    return c->status == CUDA_SUCCESS;
}

bool charge_open(struct charge *c, int device, enum memory_kind kind, uint64_t bytes) {
    session_uses(device);
    section_begin();
    bool opened = open(c, device, kind, bytes);
    charge_keep(c);
    section_end();
    return opened;
}

void charge_open_unlimited(struct charge *c, int device, enum memory_kind kind, uint64_t bytes) {
    *c = (struct charge){.recorded = session_on, .device = device, .kind = kind, .asked = bytes};
}

/* What the program itself asked to be managed has as much of the host as it has natively, unless the user set a limit.
 * What may be plain does not wait for anything. */
static bool reserve_managed(enum memory_kind kind, uint64_t bytes) {
    bool own = kind == MEMORY_MANAGED, waits = ulms_options.managed_limit > 0;
    if (own && !waits)
        return ledger_charge_managed(session.ledger, bytes);
    if (ledger_reserve_managed(session.ledger, bytes))
        return true;
    deferred_free_unused();
    bool reserved = ledger_reserve_managed(session.ledger, bytes);
    while (!reserved && waits && free_oldest())
        reserved = ledger_reserve_managed(session.ledger, bytes);
    return reserved;
}

static bool open_managed(struct charge *c, int device, enum memory_kind kind, uint64_t bytes) {
    *c = (struct charge){
        .recorded = true, .managed = true, .device = device, .kind = kind, .asked = bytes, .bytes = bytes};
    if (reserve_managed(kind, bytes))
        return true;
    log_info("%llu bytes refused: %llu of %llu that may move are held (ULMS_MANAGED_LIMIT)", (unsigned long long)bytes,
             (unsigned long long)ledger_managed(session.ledger),
             (unsigned long long)(session.managed_limit + session.file_limit));
    c->bytes = 0;
    c->status = CUDA_ERROR_OUT_OF_MEMORY;
    return false;
}

bool charge_open_managed(struct charge *c, int device, enum memory_kind kind, uint64_t bytes) {
    if (!session_on || !session.backend->serves(device))
        return charge_open(c, device, kind, bytes);
    section_begin();
    bool opened = open_managed(c, device, kind, bytes);
    charge_keep(c);
    section_end();
    return opened;
}

void charge_comes(struct charge *c, uint64_t bytes) {
    if (!bytes || !session.backend->serves(c->device))
        return;
    c->coming = bytes;
    session.backend->coming(c->device, (int64_t)bytes);
}

void charge_came(struct charge *c) {
    if (c->coming)
        session.backend->coming(c->device, -(int64_t)c->coming);
    c->coming = 0;
}

/* So long other processes may take to shrink: a new broker, if theirs has just died, comes first. */
#define SHRINKS_NS 4000000000ull

bool charge_relieved(const struct charge *c, struct charge_relief *r, CUresult status) {
    if (status != CUDA_ERROR_OUT_OF_MEMORY || !c->recorded)
        return false;
    if (!r->asked)
        deferred_free_unused(); /* what pools keep, too */
    bool gave = !r->asked && session.backend->relieve && session.backend->relieve(c->device);
    bool waits = c->kind == MEMORY_PLAIN || c->kind == MEMORY_PITCH;
    r->asked = true;
    r->others.what = PATIENCE_TURN;
    r->others.most_ns = SHRINKS_NS;
    return gave || (waits && !capture_any() && session.device_shares && session.device_shares(c->device) &&
                    patience_rest(&r->others));
}

static void roll_back(struct charge *c) {
    if (c->managed)
        ledger_cancel_managed(session.ledger, c->bytes);
    else
        ledger_cancel(session.ledger, c->device, c->bytes);
    c->bytes = 0;
}

/* False: the limit does not have what goes beyond the promise. */
static bool extend(struct charge *c, uint64_t taken) {
    if (c->bytes >= taken || !limited(c->device, c->kind))
        return true;
    if (!ledger_reserve(session.ledger, c->device, taken - c->bytes))
        return false;
    c->bytes = taken;
    return true;
}

/* The device holds `taken` bytes. */
static void commit(struct charge *c, uint64_t taken) {
    if (c->bytes < taken) {
        ledger_charge(session.ledger, c->device, taken - c->bytes);
        ledger_commit(session.ledger, c->device, c->bytes);
    } else {
        ledger_commit(session.ledger, c->device, taken);
        ledger_cancel(session.ledger, c->device, c->bytes - taken);
    }
    c->bytes = taken;
}

/* The driver gave out memory at that address. *charged: what the allocation holds by itself. False: the limit does not
 * have what the driver took. */
static bool commit_at(struct charge *c, addr_t start, uint64_t bytes, uint64_t *charged) {
    bool maps = c->kind == MEMORY_VMM || c->kind == MEMORY_IPC; /* what a handle of ours or another process holds */
    bool shares = shares_grains(c->kind, bytes), holds = !c->reserved && !maps;
    *charged = c->bytes;
    if (c->managed) {
        ledger_commit_managed(session.ledger, c->device, c->bytes);
        return true;
    }
    uint64_t taken = holds ? whole_grains(bytes) : 0;
    if (shares ? !grains_join(c, start, bytes, extend, &taken) : !extend(c, taken))
        return false;
    commit(c, taken);
    *charged = shares ? 0 : taken;
    return true;
}

static void grown(const struct charge *c) {
    if (!c->managed && session.backend->serves(c->device))
        session.backend->plain(c->device);
}

/* The real call's answer. False: there is nothing to commit; what was promised to a call that failed is rolled back. */
static bool answered(struct charge *c, CUresult status) {
    c->status = status;
    under_way.bytes = 0;
    if (c->recorded && status != CUDA_SUCCESS)
        roll_back(c);
    return c->recorded && status == CUDA_SUCCESS;
}

static void close(struct charge *c, CUresult status, CUdeviceptr *start, uint64_t bytes) {
    struct allocation a = {.bytes = bytes, .device = c->device, .kind = c->kind, .managed = c->managed};
    if (!answered(c, status))
        return;
    a.start = *start;
    a.context = c->context ? c->context : context_current();
    if (!commit_at(c, a.start, bytes, &a.charged)) {
        REAL(cuMemFree_v2, 0)(a.start);
        roll_back(c);
        *start = 0;
        charge_refuse(c, bytes);
    } else if (memory_enter(&a)) {
        grown(c);
    } else {
        if (a.managed)
            ledger_credit_managed(session.ledger, a.device, a.charged);
        memory_credit(&a);
    }
}

void charge_close(struct charge *c, CUresult status, CUdeviceptr *start, uint64_t bytes) {
    section_begin();
    close(c, status, start, bytes);
    section_end();
}

static void hold(struct charge *c, CUresult status) {
    if (!answered(c, status))
        return;
    if (c->managed)
        ledger_commit_managed(session.ledger, c->device, c->bytes);
    else
        commit(c, whole_grains(c->asked));
    stats_add(COUNT_allocations, 1);
    grown(c);
    memory_publish(c->device);
}

void charge_hold(struct charge *c, CUresult status) {
    section_begin();
    hold(c, status);
    section_end();
}

void charge_jumped(void) {
    charge_came(&under_way);
    if (under_way.bytes)
        roll_back(&under_way);
}

void charge_end(const struct charge *c) {
    if (!c->recorded)
        return;
    if (c->managed) {
        ledger_credit_managed(session.ledger, c->device, c->bytes);
        ledger_cancel_managed(session.ledger, c->bytes);
    } else {
        ledger_credit(session.ledger, c->device, c->bytes);
    }
    memory_publish(c->device);
    if (c->bytes)
        stats_add(COUNT_frees, 1);
}
