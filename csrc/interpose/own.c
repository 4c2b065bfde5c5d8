#include "interpose/own.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver/context.h"
#include "driver/real.h"
#include "driver/session.h"
#include "interpose/caller.h"
#include "interpose/provide.h"
#include "ledger/addrmap.h"

enum { REFUSALS = 3 };

/* Addresses that the program reserved, as the driver did: whole pages from a page's start. */
struct reservation {
    addr_t start;
    uint64_t bytes; /* as the program knows it */
    uint64_t whole; /* as the driver does */
    int32_t device; /* whose memory may be put there; DEVICE_NONE: nobody's was */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows, and of what stand-ins have of it */
static struct addrmap reservations;
static struct addrmap orphans; /* those that the program gave back while memory of stand-ins lay there, hidden */
static struct hash placed = HASH_EMPTY; /* where its memory lies -> stand-in */

static const struct backend_own *own(void) {
    return session.backend->own;
}

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

bool own_provide(struct stand_in *s) {
    s->promise = own()->promise(s->bytes, s->prop.location.id);
    return s->promise != NULL;
}

static void forgo(struct stand_in *s) {
    if (s->promise)
        own()->forgo(s->promise);
    s->promise = NULL;
}

/* --- reservations --- */

/* Under the lock. */
static struct reservation *find_in(struct addrmap *m, addr_t ptr) {
    struct range r;
    return addrmap_find(m, ptr, &r) ? (struct reservation *)(uintptr_t)r.value : NULL;
}

/* Likewise. */
static struct reservation *reservation_of(CUdeviceptr ptr, size_t size) {
    struct reservation *r = find_in(&reservations, ptr);
    return r && size && size <= r->start + r->bytes - ptr ? r : NULL;
}

/* Likewise. */
static bool keep(struct addrmap *m, const struct reservation *r) {
    return addrmap_insert(m, &(struct range){r->start, r->start + r->bytes, (uintptr_t)r});
}

static bool enter(addr_t start, uint64_t bytes, uint64_t whole) {
    struct reservation *r = malloc(sizeof *r);
    if (!r)
        return false;
    *r = (struct reservation){start, bytes, whole, DEVICE_NONE};
    pthread_mutex_lock(&lock);
    bool stored = keep(&reservations, r);
    pthread_mutex_unlock(&lock);
    if (!stored)
        free(r);
    return stored;
}

CUresult own_reserve(int variant, CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                     unsigned long long flags) {
    uint64_t whole = whole_pages(size), aligned = alignment > page_bytes ? alignment : page_bytes;
    bool valid = ptr && size && whole && size % PAGE_LEAST == 0 && !(alignment & (alignment - 1)) && !flags;
    if (valid && !addr && !caller_stays_plain() &&
        REAL(cuMemAddressReserve, variant)(ptr, whole, aligned, 0, 0) == CUDA_SUCCESS) {
        if (enter(*ptr, size, whole))
            return CUDA_SUCCESS;
        REAL(cuMemAddressFree, 0)(*ptr, whole);
    }
    CUresult status = REAL(cuMemAddressReserve, variant)(ptr, size, alignment, addr, flags);
    if (status == CUDA_SUCCESS && valid && whole == size && *ptr % page_bytes == 0)
        enter(*ptr, size, size);
    return status;
}

bool own_reserved(addr_t p) {
    pthread_mutex_lock(&lock);
    bool found = find_in(&reservations, p) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Something of the program's is mapped in the range. */
static bool any_mapped(CUdeviceptr ptr, size_t size) {
    struct allocation a;
    return ledger_find(session.ledger, ptr, &a) ||
           (ledger_list(session.ledger, ptr, &a, 1) == 1 && a.start < ptr + size);
}

/* No memory of stand-ins is there. Under the lock. */
static bool is_empty(const struct reservation *r) {
    return r->device == DEVICE_NONE || own()->beside(r->start, r->whole, NULL, 0) == 0;
}

/* Likewise. */
static CUresult give_back(int variant, const struct reservation *r) {
    if (r->device != DEVICE_NONE)
        own()->close(r->start);
    return REAL(cuMemAddressFree, variant)(r->start, r->whole);
}

/* Memory has left the address: perhaps nothing keeps its reservation any more. Under the lock. */
static void left(addr_t at) {
    struct reservation *r = find_in(&orphans, at);
    if (!r || !is_empty(r))
        return;
    addrmap_erase(&orphans, r->start, r->start + 1);
    give_back(0, r);
    free(r);
}

/* Under the lock. */
static CUresult address_free(int variant, struct reservation *r, CUdeviceptr ptr, size_t size) {
    if (r->start != ptr || r->bytes != size || any_mapped(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    bool empty = is_empty(r);
    if (!empty && !keep(&orphans, r))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult status = empty ? give_back(variant, r) : CUDA_SUCCESS;
    if (status != CUDA_SUCCESS) {
        r->device = DEVICE_NONE;
        return status;
    }
    addrmap_erase(&reservations, ptr, ptr + 1);
    if (empty)
        free(r);
    return CUDA_SUCCESS;
}

bool own_address_free(int variant, CUdeviceptr ptr, size_t size, CUresult *status) {
    pthread_mutex_lock(&lock);
    struct reservation *r = find_in(&reservations, ptr);
    bool known = r || find_in(&orphans, ptr);
    *status = r ? address_free(variant, r, ptr, size) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return known;
}

/* Memory of the device may be put there: the driver's mappings that are there already stay. Under the lock. */
static bool open_for(struct reservation *r, int32_t device) {
    struct allocation list[LEDGER_LISTED];
    addr_t from = r->start, end = r->start + r->bytes;
    if (r->device == DEVICE_NONE && own()->open(r->start, r->whole, device)) {
        r->device = device;
        for (size_t n; from < end && (n = ledger_list(session.ledger, from, list, LEDGER_LISTED)) > 0;
             from = list[n - 1].start + 1)
            for (size_t i = 0; i < n && list[i].start < end; i++)
                own()->foreign(list[i].start, list[i].bytes, true);
    }
    return r->device == device;
}

/* --- to the driver --- */

/* The device may have to be cleared for it. */
static CUresult create(struct stand_in *s, CUmemGenericAllocationHandle *handle, struct charge *c) {
    int device = s->prop.location.id;
    charge_open_unlimited(c, device, MEMORY_VMM, s->bytes);
    if (s->promise) /* its memory serves again */
        forgo(s);
    CUresult status = RELIEVED(c, REAL(cuMemCreate, 0)(handle, s->bytes, &s->prop, 0));
    struct patience wish = {0};
    for (int i = 0; status && (status == CUDA_ERROR_OUT_OF_MEMORY ? patience_rest(&wish) : i < REFUSALS); i++) {
        if (session.backend->plain && context_device() == device)
            session.backend->plain(device);
        status = RELIEVED(c, REAL(cuMemCreate, 0)(handle, s->bytes, &s->prop, 0));
    }
    charge_hold(c, status);
    return status;
}

/* The ledger has plain memory there in the place of what moved. */
static void enter_plain(const struct stand_in *s) {
    struct dealloc p;
    struct charge c = {.recorded = session_on, .device = s->prop.location.id, .kind = MEMORY_VMM};
    CUdeviceptr start = s->at;
    dealloc_open(&p, start);
    dealloc_close(&p, CUDA_SUCCESS);
    c.context = p.gone.context;
    charge_close(&c, CUDA_SUCCESS, &start, s->bytes);
}

static void become_real(struct stand_in *s, CUmemGenericAllocationHandle handle, const struct charge *c) {
    s->real = handle;
    charge_end(s->charge);
    *s->charge = *c;
    if (s->mapped)
        enter_plain(s);
    if (s->at) {
        hash_take(&placed, s->at);
        left(s->at);
    }
    s->at = 0;
}

struct change {
    struct stand_in *s;
    struct charge charge;
};

/* n of them, at the places that the list says. */
static CUresult replace(struct own_real *list, struct change *change, size_t n) {
    CUresult status = CUDA_SUCCESS;
    size_t made = 0;
    for (; status == CUDA_SUCCESS && made < n; made += status == CUDA_SUCCESS) {
        struct stand_in *s = change[made].s = hash_get(&placed, list[made].at);
        CUmemGenericAllocationHandle handle = 0;
        status = s ? create(s, &handle, &change[made].charge) : CUDA_ERROR_UNKNOWN;
        if (status == CUDA_SUCCESS)
            list[made] = (struct own_real){s->at, s->bytes, handle, s->mapped, context_current()};
    }
    bool done = false;
    for (int i = 0; status == CUDA_SUCCESS && !done && i < REFUSALS; i++)
        done = own()->replace(list, n);
    status = status == CUDA_SUCCESS && !done ? CUDA_ERROR_OUT_OF_MEMORY : status;
    for (size_t i = 0; i < made; i++) {
        if (status == CUDA_SUCCESS) {
            become_real(change[i].s, list[i].handle, &change[i].charge);
            continue;
        }
        REAL(cuMemRelease, 0)(list[i].handle);
        charge_end(&change[i].charge);
    }
    return status;
}

static void tell_refused(CUresult status) {
    static bool told;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_error("a handle's memory that moves cannot be made plain (error %d), as it must be where it is mapped at "
                  "more than one place, or exported: name the library that allocates it in ULMS_PLAIN",
                  (int)status);
}

/* All memory of stand-ins on pages of the range becomes the driver's. Under the lock. */
static CUresult make_way(CUdeviceptr ptr, size_t size) {
    CUresult status = CUDA_SUCCESS;
    size_t n = own()->beside(ptr, size, NULL, 0);
    if (n == 0)
        return CUDA_SUCCESS;
    addr_t *at = calloc(n, sizeof *at);
    struct own_real *list = calloc(n, sizeof *list);
    struct change *change = calloc(n, sizeof *change);
    if (!at || !list || !change)
        status = CUDA_ERROR_OUT_OF_MEMORY;
    else
        own()->beside(ptr, size, at, n);
    for (size_t i = 0; status == CUDA_SUCCESS && i < n; i++)
        list[i].at = at[i];
    status = status ? status : replace(list, change, n);
    if (status != CUDA_SUCCESS)
        tell_refused(status);
    free(at);
    free(list);
    free(change);
    return status;
}

/* Under the lock. */
static CUresult make(struct stand_in *s) {
    struct charge c;
    CUmemGenericAllocationHandle handle = 0;
    if (s->real)
        return CUDA_SUCCESS;
    if (s->at)
        return make_way(s->at, s->bytes);
    CUresult status = create(s, &handle, &c);
    if (status == CUDA_SUCCESS)
        become_real(s, handle, &c);
    else
        own_provide(s);
    return status;
}

CUresult own_make(struct stand_in *s) {
    pthread_mutex_lock(&lock);
    CUresult status = make(s);
    pthread_mutex_unlock(&lock);
    return status;
}

/* For the program nothing can be mapped there. Under the lock. */
static bool is_taken(CUdeviceptr ptr, size_t size) {
    return any_mapped(ptr, size) || find_in(&orphans, ptr);
}

CUresult own_make_way(CUdeviceptr ptr, size_t size) {
    pthread_mutex_lock(&lock);
    CUresult status = is_taken(ptr, size) ? CUDA_ERROR_INVALID_VALUE : make_way(ptr, size);
    pthread_mutex_unlock(&lock);
    return status;
}

void own_close(struct stand_in *s) {
    pthread_mutex_lock(&lock);
    if (s->at) {
        hash_take(&placed, s->at);
        own()->drop(s->at);
        left(s->at);
    }
    forgo(s);
    pthread_mutex_unlock(&lock);
}

/* --- mappings --- */

/* Hidden memory of others lies there. Under the lock. */
static bool any_hidden(CUdeviceptr ptr, size_t size) {
    for (addr_t at = ptr; at < ptr + size; at += PAGE_LEAST)
        if (hash_get(&placed, at))
            return true;
    return false;
}

/* Under the lock. */
static bool place(struct stand_in *s, CUdeviceptr ptr) {
    bool stored = false;
    struct reservation *r = reservation_of(ptr, s->bytes);
    if (!r || !s->promise || !open_for(r, s->prop.location.id))
        return false;
    if (any_hidden(ptr, s->bytes) && make_way(ptr, s->bytes) != CUDA_SUCCESS)
        return false;
    hash_put(&placed, ptr, s, &stored);
    if (stored && own()->put(s->promise, ptr, s->bytes)) {
        s->promise = NULL;
        s->at = ptr;
        return true;
    }
    if (stored)
        hash_take(&placed, ptr);
    return false;
}

/* Under the lock. */
static void arrive(struct stand_in *s) {
    CUdeviceptr start = s->at;
    struct charge c = {.recorded = session_on, .managed = true, .device = s->prop.location.id, .kind = MEMORY_VMM};
    s->mapped = true;
    memset(s->access, CU_MEM_ACCESS_FLAGS_PROT_NONE, sizeof s->access);
    charge_close(&c, CUDA_SUCCESS, &start, s->bytes);
}

enum own_mapping own_map(struct stand_in *s, CUdeviceptr ptr, size_t size, size_t offset, unsigned long long flags,
                         CUresult *status) {
    enum own_mapping mapping = OWN_TO_MAP;
    bool whole = size == s->bytes && offset == 0 && flags == 0 && ptr % PAGE_LEAST == 0;
    pthread_mutex_lock(&lock);
    *status = is_taken(ptr, size) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (*status == CUDA_SUCCESS && whole && !s->real &&
        (s->at ? s->at == ptr && !s->mapped && own()->show(ptr) : place(s, ptr))) {
        arrive(s);
        mapping = OWN_MAPPED;
    } else if (*status == CUDA_SUCCESS && (*status = make(s)) == CUDA_SUCCESS) {
        *status = make_way(ptr, size);
    }
    pthread_mutex_unlock(&lock);
    return *status == CUDA_SUCCESS ? mapping : OWN_REFUSED;
}

void own_mapped(CUdeviceptr ptr, size_t size, bool mapped) {
    pthread_mutex_lock(&lock);
    const struct reservation *r = reservation_of(ptr, size);
    if (r && r->device != DEVICE_NONE)
        own()->foreign(ptr, size, mapped);
    pthread_mutex_unlock(&lock);
}

bool own_unmap(addr_t start) {
    pthread_mutex_lock(&lock);
    struct stand_in *s = hash_get(&placed, start);
    if (s) {
        s->mapped = false;
        own()->hide(start);
    }
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    struct stand_in *s = a->managed ? hash_get(&placed, a->start) : NULL;
    bool simple = s != NULL;
    for (size_t i = 0; simple && i < count; i++)
        simple = is_valid(&desc[i]) && desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; simple && i < count; i++)
        s->access[desc[i].location.id] = (uint8_t)desc[i].flags;
    CUresult status = s && !simple ? make(s) : CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    const struct stand_in *s = hash_get(&placed, a.start);
    bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < DEVICE_MAX;
    if (s)
        *flags = device ? s->access[location->id] : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&lock);
    return s != NULL;
}
