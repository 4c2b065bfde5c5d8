#include "interpose/replace/virtual_handle.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/page.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/replace/caller_policy.h"
#include "interpose/replace/own.h"
#include "interpose/replace/provide.h"

struct space {
    addr_t start;
    uint64_t bytes;
    int device;
    uint64_t context;          /* of the memory; 0: it went with it */
    struct virtual_handle *of; /* whose memory it holds, mapped or not; NULL: nobody's */
    struct space *next;
};

static struct lock lock; /* of spaces, and of what virtual handles have of them */
static struct space *spaces;
static struct hash by_start;

/* The thread's latest handle, until it reserves addresses. */
static __thread struct {
    uint64_t bytes;
    bool ours;
} latest;

/* --- handles --- */

bool virtual_handle_may_be(void) {
    return own_on() || caller_always_exportable();
}

static bool is_simple(const CUmemAllocationProp *prop) {
    return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           !prop->allocFlags.compressionType && !prop->allocFlags.usage;
}

static bool fits(size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    int device = session_on ? context_device() : DEVICE_NONE;
    return device >= 0 && prop && !flags && is_simple(prop) && prop->location.id == device && size > 0 &&
           size % PAGE_LEAST == 0 && virtual_handle_may_be() && provide_context(device, size) &&
           (!own_on() || own_exportable(prop));
}

bool virtual_handle_open(struct charge *c, struct virtual_handle **s, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags) {
    latest.bytes = size;
    latest.ours = false;
    if (!fits(size, prop, flags) || !(*s = calloc(1, sizeof **s)))
        return false;
    (*s)->prop = *prop;
    (*s)->bytes = size;
    bool charged = charge_open_managed(c, prop->location.id, MEMORY_VMM, size);
    if (charged && (!own_on() || own_provide(*s))) {
        latest.ours = true;
        charge_hold(c, CUDA_SUCCESS);
        return true;
    }
    if (charged)
        charge_hold(c, CUDA_ERROR_OUT_OF_MEMORY);
    free(*s);
    return !charged && ulms_options.managed_limit > 0;
}

static void refuse(void) {
    static bool told;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_error("memory that moves cannot be mapped at other addresses than those that were reserved for it: name "
                  "the library that allocates it in ULMS_PLAIN, or set ULMS_BACKEND=observe");
}

/* Under the lock. */
static CUresult make(struct virtual_handle *s) {
    struct charge plain;
    if (s->real)
        return CUDA_SUCCESS;
    if (s->space || s->lost) {
        refuse();
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    charge_open_unlimited(&plain, s->prop.location.id, MEMORY_VMM, s->bytes);
    charge_hold(&plain, RELIEVED(&plain, REAL(cuMemCreate, 0)(&s->real, s->bytes, &s->prop, 0)));
    if (plain.status == CUDA_SUCCESS) {
        charge_end(s->charge);
        *s->charge = plain;
    }
    return plain.status;
}

CUresult virtual_handle_make(struct virtual_handle *s) {
    if (own_on())
        return own_make(s);
    lock_take(&lock);
    CUresult status = make(s);
    lock_drop(&lock);
    return status;
}

/* What the space holds is nobody's any more. Under the lock. */
static void empty(struct space *at) {
    struct dealloc p;
    if (!at->of)
        return;
    at->of->space = NULL;
    at->of = NULL;
    dealloc_open(&p, at->start);
    dealloc_close(&p, CUDA_SUCCESS);
}

void virtual_handle_close(struct virtual_handle *s) {
    if (own_on())
        own_close(s);
    lock_take(&lock);
    if (s->space)
        empty(s->space);
    lock_drop(&lock);
    if (s->real)
        REAL(cuMemRelease, 0)(s->real);
    free(s);
}

/* --- mappings --- */

/* Under the lock. */
static void arrive(struct virtual_handle *s, struct space *at) {
    CUdeviceptr start = at->start;
    struct charge c = {
        .recorded = session_on, .managed = true, .device = at->device, .kind = MEMORY_VMM, .context = at->context};
    s->space = at;
    at->of = s;
    charge_close(&c, CUDA_SUCCESS, &start, at->bytes);
}

bool virtual_handle_map(struct virtual_handle *s, CUdeviceptr ptr, size_t size, size_t offset, unsigned long long flags,
                        CUresult *status) {
    if (own_on())
        return own_map(s, ptr, size, offset, flags, status) != OWN_TO_MAP;
    lock_take(&lock);
    struct space *at = hash_get(&by_start, ptr);
    bool whole = at && at->context && at->bytes == size && s->bytes == size && offset == 0 && flags == 0;
    bool here = whole && s->space == at && !s->mapped;
    bool new = whole && !s->space && !s->real && !s->lost && !at->of && at->device == s->prop.location.id;
    if (new)
        arrive(s, at);
    s->mapped = s->mapped || here || new;
    if (here || new)
        *status = CUDA_SUCCESS;
    else if (at)
        *status = CUDA_ERROR_INVALID_VALUE;
    else
        *status = make(s);
    lock_drop(&lock);
    return at || *status != CUDA_SUCCESS;
}

bool virtual_handle_unmap(CUdeviceptr ptr, size_t size, CUresult *status) {
    lock_take(&lock);
    struct space *at = hash_get(&by_start, ptr);
    bool mapped = at && at->of && at->of->mapped && at->bytes == size;
    if (mapped)
        at->of->mapped = false;
    *status = mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    lock_drop(&lock);
    return at != NULL;
}

/* --- addresses --- */

static bool space_enter(struct space *s) {
    bool stored;
    lock_take(&lock);
    hash_put(&by_start, s->start, s, &stored);
    if (stored) {
        s->next = spaces;
        spaces = s;
    }
    lock_drop(&lock);
    return stored;
}

/* Without the lock: where memory is provided, the device may be waited for. */
static bool space_new(CUdeviceptr *start, uint64_t bytes, size_t alignment) {
    struct space s = {.bytes = bytes, .device = context_device(), .context = context_current()}, *made;
    if (!s.context || !provide_addresses(&s.start, bytes, s.device))
        return false;
    bool fit = s.start % (alignment > PAGE_LEAST ? alignment : PAGE_LEAST) == 0;
    if (fit && (made = malloc(sizeof *made))) {
        *made = s;
        *start = s.start;
        if (space_enter(made))
            return true;
        free(made);
    }
    memory_free_in(s.start, s.context);
    return false;
}

/* Under the lock. */
static void space_delete(struct space *s) {
    struct space **at = &spaces;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    hash_take(&by_start, s->start);
    free(s);
}

void virtual_handle_forget(uint64_t context) {
    lock_take(&lock);
    for (struct space *s = spaces; s; s = s->next)
        s->context = s->context == context ? 0 : s->context;
    lock_drop(&lock);
}

void virtual_handle_tell_still(int device) {
    static bool told;
    if (session.backend->serves(device) && !caller_stays_plain() && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_warn("device %d: what the program maps itself at addresses that it reserved does not move with "
                 "ULMS_BACKEND=%s: set ULMS_BACKEND=vmm, or make it allocate otherwise (PyTorch: leave "
                 "expandable_segments out of PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF)",
                 device, session.backend->name);
}

bool virtual_handle_reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                            unsigned long long flags) {
    bool ours = latest.bytes == size && latest.ours && session_on && ptr && !addr && !flags;
    latest.bytes = 0;
    return ours && space_new(ptr, size, alignment);
}

void virtual_handle_reserved(size_t size) {
    size_t most = 0;
    int device = session_on ? context_device() : DEVICE_NONE;
    if (device >= 0 && REAL(cuDeviceTotalMem_v2, 0)(&most, device) == CUDA_SUCCESS && size > most)
        virtual_handle_tell_still(device);
}

bool virtual_handle_free(CUdeviceptr ptr, size_t size, CUresult *status) {
    addr_t start = 0;
    uint64_t context = 0;
    lock_take(&lock);
    struct space *s = hash_get(&by_start, ptr);
    bool mine = s != NULL, goes = mine && s->bytes == size && !(s->of && s->of->mapped);
    if (goes) {
        if (s->of)
            s->of->lost = true;
        empty(s);
        start = s->start;
        context = s->context;
        space_delete(s);
    }
    lock_drop(&lock);
    if (context)
        memory_free_in(start, context);
    *status = goes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return mine;
}
