/* The program's own virtual memory management: handles are charged, mappings are where the memory is touched. Memory
 * lives until its handle is released and all its mappings are gone. */
#include <stdlib.h>

#include "base/hash.h"
#include "interpose/memory.h"
#include "interpose/provide.h"
#include "interpose/session.h"
#include "observe/stats.h"

struct physical {
    int references; /* handles out and mappings */
    int out;        /* of these, handles: retained, the driver gives the same one again */
    struct claim claim;
};

static struct hash handles = HASH_EMPTY;  /* CUmemGenericAllocationHandle -> struct physical */
static struct hash mappings = HASH_EMPTY; /* start of a mapping -> struct physical */

static void drop(struct physical *p) {
    if (!p || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    ledger_cancel(session.ledger, p->claim.device, p->claim.bytes);
    memory_publish(p->claim.device);
    if (p->claim.bytes)
        stats_add(COUNT_frees, 1);
    free(p);
}

static void keep(CUmemGenericAllocationHandle handle, const struct claim *c) {
    struct physical *p = malloc(sizeof *p);
    bool stored = false;
    if (p) {
        *p = (struct physical){.references = 1, .out = 1, .claim = *c};
        drop(hash_put(&handles, handle, p, &stored));
    }
    if (!stored) {
        ledger_cancel(session.ledger, c->device, c->bytes);
        free(p);
    }
}

CUresult custom_cuMemCreate(int variant, CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags) {
    struct claim c;
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (claim_open(&c, on_device ? prop->location.id : DEVICE_NONE, MEMORY_VMM, on_device ? size : 0)) {
        claim_hold(&c, CLAIMED(&c, REAL(cuMemCreate, variant)(handle, size, prop, flags)));
        if (c.recorded && c.status == CUDA_SUCCESS)
            keep(*handle, &c);
    }
    return c.status;
}

/* Another process's memory, or a second reference to ours: the driver gives each its own handle. */
CUresult custom_cuMemImportFromShareableHandle(int variant, CUmemGenericAllocationHandle *handle, void *osHandle,
                                               CUmemAllocationHandleType shHandleType) {
    CUresult status = REAL(cuMemImportFromShareableHandle, variant)(handle, osHandle, shHandleType);
    if (status == CUDA_SUCCESS && session_on && !hash_get(&handles, *handle)) {
        struct claim free_of_charge = {.recorded = true, .device = DEVICE_NONE, .kind = MEMORY_IPC};
        keep(*handle, &free_of_charge);
    }
    return status;
}

CUresult custom_cuMemRetainAllocationHandle(int variant, CUmemGenericAllocationHandle *handle, void *addr) {
    struct allocation a;
    if (provided_at((addr_t)(uintptr_t)addr, &a)) /* it may be mapped where plain memory, which has no handle, is not */
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = REAL(cuMemRetainAllocationHandle, variant)(handle, addr);
    struct physical *p = status == CUDA_SUCCESS && session_on ? hash_get(&handles, *handle) : NULL;
    bool released = !p && status == CUDA_SUCCESS && session_on; /* before, and still mapped: it has a handle again */
    if (released)
        p = hash_get(&mappings, (uint64_t)(uintptr_t)addr);
    if (p) {
        __atomic_fetch_add(&p->references, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&p->out, 1, __ATOMIC_RELAXED);
    }
    if (p && released)
        drop(hash_put(&handles, *handle, p, NULL));
    return status;
}

CUresult custom_cuMemRelease(int variant, CUmemGenericAllocationHandle handle) {
    struct physical *p = session_on ? hash_get(&handles, handle) : NULL;
    bool last = p && __atomic_sub_fetch(&p->out, 1, __ATOMIC_ACQ_REL) == 0;
    if (last)
        hash_take(&handles, handle);
    CUresult status = REAL(cuMemRelease, variant)(handle);
    if (p && status == CUDA_SUCCESS) {
        drop(p);
    } else if (p) {
        __atomic_fetch_add(&p->out, 1, __ATOMIC_RELAXED);
        if (last)
            hash_put(&handles, handle, p, NULL);
    }
    return status;
}

CUresult custom_cuMemMap(int variant, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    struct physical *p = session_on ? hash_get(&handles, handle) : NULL;
    struct claim c = {
        .recorded = p != NULL, .device = p ? p->claim.device : DEVICE_NONE, .kind = p ? p->claim.kind : MEMORY_VMM};
    claim_close(&c, REAL(cuMemMap, variant)(ptr, size, offset, handle, flags), &ptr, size);
    if (p && c.status == CUDA_SUCCESS) {
        __atomic_fetch_add(&p->references, 1, __ATOMIC_RELAXED);
        drop(hash_put(&mappings, ptr, p, NULL));
    }
    return c.status;
}

/* One unmap may cover several mappings, each whole. Taken out of the ledger before, as for every free. */
CUresult custom_cuMemUnmap(int variant, CUdeviceptr ptr, size_t size) {
    struct allocation list[64];
    struct parting *partings = NULL;
    size_t n = 0;
    addr_t from = ptr;
    for (size_t got; session_on && (got = ledger_list(session.ledger, from, list, 64)) > 0;) {
        struct parting *more = realloc(partings, (n + got) * sizeof *partings);
        size_t inside = 0;
        if (!more)
            break;
        partings = more;
        while (inside < got && list[inside].start < ptr + size)
            parting_open(&partings[n++], list[inside++].start);
        if (inside < 64)
            break;
        from = list[63].start + 1;
    }
    CUresult status = REAL(cuMemUnmap, variant)(ptr, size);
    for (size_t i = 0; i < n; i++) {
        parting_close(&partings[i], status);
        if (status == CUDA_SUCCESS)
            drop(hash_take(&mappings, partings[i].gone.start));
    }
    free(partings);
    return status;
}
