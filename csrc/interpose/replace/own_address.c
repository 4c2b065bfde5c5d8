#include "interpose/replace/own_state.h"

#include <stdlib.h>

#include "base/page.h"
#include "interpose/replace/caller_policy.h"
#include "ledger/addrmap.h"

static struct addrmap reservations;
static struct addrmap orphans; /* those that the program gave back while memory of virtual handles lay there, hidden */

/* Under the lock. */
static struct reservation *find_in(struct addrmap *m, addr_t ptr) {
    struct range r;
    return addrmap_find(m, ptr, &r) ? (struct reservation *)(uintptr_t)r.value : NULL;
}

struct reservation *own_reservation(CUdeviceptr ptr, size_t size) {
    struct reservation *r = find_in(&reservations, ptr);
    return r && size && size <= r->start + r->bytes - ptr ? r : NULL;
}

/* Under the lock. */
static bool keep(struct addrmap *m, const struct reservation *r) {
    return addrmap_insert(m, &(struct range){r->start, r->start + r->bytes, (uintptr_t)r});
}

static bool address_enter(addr_t start, uint64_t bytes, uint64_t whole) {
    struct reservation *r = malloc(sizeof *r);
    if (!r)
        return false;
    *r = (struct reservation){start, bytes, whole, DEVICE_NONE};
    lock_take(&own_lock);
    bool stored = keep(&reservations, r);
    lock_drop(&own_lock);
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
        if (address_enter(*ptr, size, whole))
            return CUDA_SUCCESS;
        REAL(cuMemAddressFree, 0)(*ptr, whole);
    }
    CUresult status = REAL(cuMemAddressReserve, variant)(ptr, size, alignment, addr, flags);
    if (status == CUDA_SUCCESS && valid && whole == size && *ptr % page_bytes == 0)
        address_enter(*ptr, size, size);
    return status;
}

bool own_reserved(addr_t p) {
    lock_take(&own_lock);
    bool found = find_in(&reservations, p) != NULL;
    lock_drop(&own_lock);
    return found;
}

/* Something of the program's is mapped in the range. */
static bool any_mapped(CUdeviceptr ptr, size_t size) {
    struct allocation a;
    return ledger_find(session.ledger, ptr, &a) ||
           (ledger_list(session.ledger, ptr, &a, 1) == 1 && a.start < ptr + size);
}

/* No memory of virtual handles is there. Under the lock. */
static bool is_empty(const struct reservation *r) {
    return r->device == DEVICE_NONE || own()->beside(r->start, r->whole, NULL, 0) == 0;
}

/* Likewise. */
static CUresult give_back(int variant, const struct reservation *r) {
    if (r->device != DEVICE_NONE)
        own()->close(r->start);
    return REAL(cuMemAddressFree, variant)(r->start, r->whole);
}

void own_left(addr_t at) {
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
    lock_take(&own_lock);
    struct reservation *r = find_in(&reservations, ptr);
    bool known = r || find_in(&orphans, ptr);
    *status = r ? address_free(variant, r, ptr, size) : CUDA_ERROR_INVALID_VALUE;
    lock_drop(&own_lock);
    return known;
}

bool own_open(struct reservation *r, int32_t device) {
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

bool own_taken(CUdeviceptr ptr, size_t size) {
    return any_mapped(ptr, size) || find_in(&orphans, ptr);
}
