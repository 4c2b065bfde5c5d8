#include "interpose/replace/own_state.h"

#include <string.h>

#include "base/page.h"
#include "interpose/replace/provide.h"

struct lock own_lock;
struct hash own_placed;

bool own_on(void) {
    return session.backend && own();
}

/* The driver may know handle types that the system does not allow. */
bool own_exportable(const CUmemAllocationProp *prop) {
    enum { TYPES = 64 };
    static bool good[TYPES];
    CUmemGenericAllocationHandle handle;
    unsigned types = (unsigned)prop->requestedHandleTypes;
    if (types >= TYPES || __atomic_load_n(&good[types], __ATOMIC_RELAXED))
        return types < TYPES;
    if (REAL(cuMemCreate, 0)(&handle, PAGE_LEAST, prop, 0) != CUDA_SUCCESS)
        return false;
    REAL(cuMemRelease, 0)(handle);
    __atomic_store_n(&good[types], true, __ATOMIC_RELAXED);
    return true;
}

bool own_provide(struct virtual_handle *s) {
    s->promise = own()->promise(s->bytes, s->prop.location.id);
    return s->promise != NULL;
}

void own_forgo(struct virtual_handle *s) {
    if (s->promise)
        own()->forgo(s->promise);
    s->promise = NULL;
}

void own_close(struct virtual_handle *s) {
    lock_take(&own_lock);
    if (s->at) {
        hash_take(&own_placed, s->at);
        own()->drop(s->at);
        own_left(s->at);
    }
    own_forgo(s);
    lock_drop(&own_lock);
}

/* --- mappings --- */

/* Hidden memory of others lies there. Under the lock. */
static bool any_hidden(CUdeviceptr ptr, size_t size) {
    for (addr_t at = ptr; at < ptr + size; at += PAGE_LEAST)
        if (hash_get(&own_placed, at))
            return true;
    return false;
}

/* Under the lock. */
static bool place(struct virtual_handle *s, CUdeviceptr ptr) {
    bool stored = false;
    struct reservation *r = own_reservation(ptr, s->bytes);
    if (!r || !s->promise || !own_open(r, s->prop.location.id))
        return false;
    if (any_hidden(ptr, s->bytes) && own_clear(ptr, s->bytes) != CUDA_SUCCESS)
        return false;
    hash_put(&own_placed, ptr, s, &stored);
    if (stored && own()->put(s->promise, ptr, s->bytes)) {
        s->promise = NULL;
        s->at = ptr;
        return true;
    }
    if (stored)
        hash_take(&own_placed, ptr);
    return false;
}

/* Under the lock. */
static void arrive(struct virtual_handle *s) {
    CUdeviceptr start = s->at;
    struct charge c = {.recorded = session_on, .managed = true, .device = s->prop.location.id, .kind = MEMORY_VMM};
    s->mapped = true;
    memset(s->access, CU_MEM_ACCESS_FLAGS_PROT_NONE, sizeof s->access);
    charge_close(&c, CUDA_SUCCESS, &start, s->bytes);
}

enum own_mapping own_map(struct virtual_handle *s, CUdeviceptr ptr, size_t size, size_t offset,
                         unsigned long long flags, CUresult *status) {
    enum own_mapping mapping = OWN_TO_MAP;
    bool whole = size == s->bytes && offset == 0 && flags == 0 && ptr % PAGE_LEAST == 0;
    lock_take(&own_lock);
    *status = own_taken(ptr, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (*status == CUDA_SUCCESS && whole && !s->real &&
        (s->at ? s->at == ptr && !s->mapped && own()->show(ptr) : place(s, ptr))) {
        arrive(s);
        mapping = OWN_MAPPED;
    } else if (*status == CUDA_SUCCESS && (*status = own_become_real(s)) == CUDA_SUCCESS) {
        *status = own_clear(ptr, size);
    }
    lock_drop(&own_lock);
    return *status == CUDA_SUCCESS ? mapping : OWN_REFUSED;
}

void own_mapped(CUdeviceptr ptr, size_t size, bool mapped) {
    lock_take(&own_lock);
    const struct reservation *r = own_reservation(ptr, size);
    if (r && r->device != DEVICE_NONE)
        own()->foreign(ptr, size, mapped);
    lock_drop(&own_lock);
}

bool own_unmap(addr_t start) {
    lock_take(&own_lock);
    struct virtual_handle *s = hash_get(&own_placed, start);
    if (s) {
        s->mapped = false;
        own()->hide(start);
    }
    lock_drop(&own_lock);
    return s != NULL;
}

/* --- access --- */

static bool is_valid(const CUmemAccessDesc *desc) {
    return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc->location.id >= 0 &&
           desc->location.id < session.devices;
}

/* Devices reach the backend's memory from the start, as far as they can at all. Of others the driver is asked. */
static CUresult set_access(int variant, const struct allocation *a, CUdeviceptr ptr, size_t size,
                           const CUmemAccessDesc *desc, size_t count) {
    lock_take(&own_lock);
    struct virtual_handle *s = a->managed ? hash_get(&own_placed, a->start) : NULL;
    bool simple = s != NULL;
    for (size_t i = 0; simple && i < count; i++)
        simple = is_valid(&desc[i]) && desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; simple && i < count; i++)
        s->access[desc[i].location.id] = (uint8_t)desc[i].flags;
    CUresult status = s && !simple ? own_become_real(s) : CUDA_SUCCESS;
    lock_drop(&own_lock);
    return simple || status != CUDA_SUCCESS ? status : REAL(cuMemSetAccess, variant)(ptr, size, desc, count);
}

bool own_set_access(int variant, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count,
                    CUresult *status) {
    struct allocation a;
    CUdeviceptr end = ptr + size;
    bool any = false, covered = true;
    for (CUdeviceptr at = ptr; covered && at < end; at = a.start + a.bytes) {
        covered = ledger_find(session.ledger, at, &a) && a.kind == MEMORY_VMM;
        any = any || (covered && a.managed);
    }
    if (!any || !desc || !count)
        return false;
    *status = covered && ptr % PAGE_LEAST == 0 && size % PAGE_LEAST == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr at = ptr, next; *status == CUDA_SUCCESS && at < end; at = next) {
        if (!ledger_find(session.ledger, at, &a)) {
            *status = CUDA_ERROR_INVALID_VALUE;
            break;
        }
        next = a.start + a.bytes < end ? a.start + a.bytes : end;
        *status = set_access(variant, &a, at, next - at, desc, count);
    }
    return true;
}

bool own_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    struct allocation a;
    if (!provided_at(ptr, &a))
        return false;
    lock_take(&own_lock);
    const struct virtual_handle *s = hash_get(&own_placed, a.start);
    bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < DEVICE_MAX;
    if (s)
        *flags = device ? s->access[location->id] : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    lock_drop(&own_lock);
    return s != NULL;
}
