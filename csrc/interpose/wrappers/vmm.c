/* The program's own virtual memory management: handles are charged, mappings are where the memory is touched. Memory
 * lives until its handle is released and all its mappings are gone. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "driver/session.h"
#include "interpose/record/bounds.h"
#include "interpose/replace/own.h"
#include "interpose/replace/provide.h"
#include "interpose/replace/virtual_handle.h"

struct physical {
    int references; /* handles out and mappings */
    int out;        /* of these, handles: retained, the driver gives the same one again */
    struct charge charge;
    struct virtual_handle *virtual_handle; /* what the handle is in the driver's place; NULL: it is the driver's */
};

static struct hash handles;  /* handle -> struct physical */
static struct hash mappings; /* start of a mapping -> struct physical */

static void drop(struct physical *p) {
    if (!p || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (p->virtual_handle)
        virtual_handle_close(p->virtual_handle);
    charge_end(&p->charge);
    free(p);
}

/* A handle of ours is the address of what it stands for: the driver's are none of these. */
static bool keep(CUmemGenericAllocationHandle *handle, const struct charge *c, struct virtual_handle *s) {
    struct physical *p = malloc(sizeof *p);
    bool stored = false;
    if (p) {
        *handle = s ? (CUmemGenericAllocationHandle)(uintptr_t)s : *handle;
        *p = (struct physical){.references = 1, .out = 1, .charge = *c, .virtual_handle = s};
        if (s)
            s->charge = &p->charge;
        drop(hash_put(&handles, *handle, p, &stored));
    }
    if (!stored) {
        charge_end(c);
        free(p);
    }
    return stored;
}

/* Without memory of our own for it the driver's handle does. */
static bool virtual_handle(struct charge *c, CUmemGenericAllocationHandle *handle, size_t size,
                           const CUmemAllocationProp *prop, unsigned long long flags) {
    struct virtual_handle *s = NULL;
    if (!handle || !virtual_handle_open(c, &s, size, prop, flags))
        return false;
    if (c->status != CUDA_SUCCESS || keep(handle, c, s))
        return true;
    virtual_handle_close(s);
    return false;
}

CUresult custom_cuMemCreate(int variant, CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags) {
    struct charge c;
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (virtual_handle(&c, handle, size, prop, flags))
        return c.status;
    gate_enter(&session.foreign, !on_device);
    if (charge_open(&c, on_device ? prop->location.id : DEVICE_NONE, MEMORY_VMM, on_device ? size : 0)) {
        charge_hold(&c, RELIEVED(&c, REAL(cuMemCreate, variant)(handle, size, prop, flags)));
        if (c.recorded && c.status == CUDA_SUCCESS)
            keep(handle, &c, NULL);
    }
    gate_leave(&session.foreign, !on_device && c.status != CUDA_SUCCESS);
    if (c.status == CUDA_ERROR_OUT_OF_MEMORY && c.recorded && !own_on())
        virtual_handle_tell_still(c.device);
    return c.status;
}

/* Another process's memory, or a second reference to ours: the driver gives each its own handle. */
CUresult custom_cuMemImportFromShareableHandle(int variant, CUmemGenericAllocationHandle *handle, void *osHandle,
                                               CUmemAllocationHandleType shHandleType) {
    gate_enter(&session.foreign, 1);
    CUresult status = REAL(cuMemImportFromShareableHandle, variant)(handle, osHandle, shHandleType);
    gate_leave(&session.foreign, status != CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && session_on && !hash_get(&handles, *handle)) {
        struct charge free_of_charge = {.recorded = true, .device = DEVICE_NONE, .kind = MEMORY_IPC};
        keep(handle, &free_of_charge, NULL);
    }
    return status;
}

/* One more handle of memory that is mapped; where all were released before, it has one again. */
static void retain(struct physical *p, CUmemGenericAllocationHandle handle) {
    __atomic_fetch_add(&p->references, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&p->out, 1, __ATOMIC_RELAXED) == 0)
        drop(hash_put(&handles, handle, p, NULL));
}

/* Whose memory is mapped at the address, for the program. */
static struct physical *mapped_at(addr_t address) {
    struct allocation a;
    bool found = session_on && ledger_find(session.ledger, address, &a);
    return found ? hash_get(&mappings, a.start) : NULL;
}

CUresult custom_cuMemRetainAllocationHandle(int variant, CUmemGenericAllocationHandle *handle, void *addr) {
    struct allocation a;
    struct physical *p = mapped_at((addr_t)(uintptr_t)addr);
    if (p && p->virtual_handle && handle) {
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)p->virtual_handle;
        retain(p, *handle);
        return CUDA_SUCCESS;
    }
    if (provided_at((addr_t)(uintptr_t)addr, &a)) /* it may be mapped where plain memory, which has no handle, is not */
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = REAL(cuMemRetainAllocationHandle, variant)(handle, addr);
    if (p && status == CUDA_SUCCESS)
        retain(p, *handle);
    return status;
}

CUresult custom_cuMemRelease(int variant, CUmemGenericAllocationHandle handle) {
    struct physical *p = hash_get(&handles, handle);
    bool last = p && __atomic_sub_fetch(&p->out, 1, __ATOMIC_ACQ_REL) == 0;
    if (last)
        hash_take(&handles, handle);
    CUresult status = p && p->virtual_handle ? CUDA_SUCCESS : REAL(cuMemRelease, variant)(handle);
    if (p && status == CUDA_SUCCESS) {
        drop(p);
    } else if (p) {
        __atomic_fetch_add(&p->out, 1, __ATOMIC_RELAXED);
        if (last)
            hash_put(&handles, handle, p, NULL);
    }
    return status;
}

static void mapped(struct physical *p, CUdeviceptr ptr) {
    __atomic_fetch_add(&p->references, 1, __ATOMIC_RELAXED);
    drop(hash_put(&mappings, ptr, p, NULL));
}

CUresult custom_cuMemMap(int variant, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    CUresult status = CUDA_SUCCESS;
    struct physical *p = hash_get(&handles, handle);
    struct virtual_handle *s = p ? p->virtual_handle : NULL;
    if (s && virtual_handle_map(s, ptr, size, offset, flags, &status)) {
        if (status == CUDA_SUCCESS)
            mapped(p, ptr);
        return status;
    }
    if (own_on() && !s)
        status = own_make_way(ptr, size);
    if (status != CUDA_SUCCESS)
        return status;
    if (bounds_unmapped(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct charge c = {.recorded = p && session_on,
                       .device = p ? p->charge.device : DEVICE_NONE,
                       .kind = p ? p->charge.kind : MEMORY_VMM};
    charge_close(&c, REAL(cuMemMap, variant)(ptr, size, offset, s ? s->real : handle, flags), &ptr, size);
    if (c.status == CUDA_SUCCESS && own_on())
        own_mapped(ptr, size, true);
    if (p && c.status == CUDA_SUCCESS)
        mapped(p, ptr);
    return c.status;
}

/* What lies in a range. */
struct mappings {
    struct allocation *list; /* the caller frees it */
    size_t n;
    bool any_provided;
    bool whole; /* none reaches beyond it */
};

static struct mappings mappings_in(CUdeviceptr ptr, size_t size) {
    struct mappings m = {.whole = true};
    struct allocation *more, first;
    addr_t from = ptr;
    size_t before;
    if (session_on && ledger_find(session.ledger, ptr, &first)) {
        m.whole = first.start == ptr;
        m.any_provided = provided(&first);
    }
    do {
        before = m.n;
        if (!session_on || !(more = realloc(m.list, (m.n + LEDGER_LISTED) * sizeof *more)))
            break;
        m.list = more;
        for (size_t got = ledger_list(session.ledger, from, m.list + m.n, LEDGER_LISTED);
             got > 0 && m.list[m.n].start < ptr + size; got--, m.n++) {
            const struct allocation *a = &m.list[m.n];
            m.any_provided = m.any_provided || provided(a);
            m.whole = m.whole && a->start + a->bytes <= ptr + size;
            from = a->start + 1;
        }
    } while (m.n == before + LEDGER_LISTED);
    return m;
}

/* Of the driver's handles in [start, end). Taken out of the ledger before, as for every free. */
static CUresult unmap_real(int variant, CUdeviceptr start, CUdeviceptr end, const struct allocation *list, size_t n) {
    struct dealloc *gone = n ? calloc(n, sizeof *gone) : NULL;
    for (size_t i = 0; gone && i < n; i++)
        dealloc_open(&gone[i], list[i].start);
    CUresult status = REAL(cuMemUnmap, variant)(start, end - start);
    for (size_t i = 0; gone && i < n; i++) {
        dealloc_close(&gone[i], status);
        if (status != CUDA_SUCCESS)
            continue;
        if (own_on())
            own_mapped(list[i].start, list[i].bytes, false);
        drop(hash_take(&mappings, list[i].start));
    }
    free(gone);
    return status;
}

static void unmap_virtual_handle(addr_t start) {
    struct dealloc gone;
    own_unmap(start);
    dealloc_open(&gone, start);
    dealloc_close(&gone, CUDA_SUCCESS);
    drop(hash_take(&mappings, start));
}

/* Those of the driver's handles first: it may refuse. */
static CUresult unmap_mixed(int variant, const struct mappings *m) {
    CUresult status = m->whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, run; status == CUDA_SUCCESS && i < m->n; i += run ? run : 1) {
        for (run = 0; i + run < m->n && !provided(&m->list[i + run]);)
            run++;
        const struct allocation *last = &m->list[i + run - 1];
        if (run > 0)
            status = unmap_real(variant, m->list[i].start, last->start + last->bytes, &m->list[i], run);
    }
    for (size_t i = 0; status == CUDA_SUCCESS && i < m->n; i++)
        if (provided(&m->list[i]))
            unmap_virtual_handle(m->list[i].start);
    return status;
}

/* One unmap may cover several mappings, each whole. */
CUresult custom_cuMemUnmap(int variant, CUdeviceptr ptr, size_t size) {
    CUresult status;
    if (!virtual_handle_unmap(ptr, size, &status)) {
        if (bounds_unmapped(ptr, size))
            return CUDA_ERROR_INVALID_VALUE;
        struct mappings m = mappings_in(ptr, size);
        status =
            own_on() && m.any_provided ? unmap_mixed(variant, &m) : unmap_real(variant, ptr, ptr + size, m.list, m.n);
        free(m.list);
    } else if (status == CUDA_SUCCESS) {
        drop(hash_take(&mappings, ptr));
    }
    return status;
}

/* --- what else is done with handles --- */

/* The driver's handle of that memory, which stays where it is from now on. */
static CUresult to_real(CUmemGenericAllocationHandle *handle) {
    struct physical *p = hash_get(&handles, *handle);
    if (!p || !p->virtual_handle)
        return CUDA_SUCCESS;
    CUresult status = virtual_handle_make(p->virtual_handle);
    *handle = p->virtual_handle->real;
    return status;
}

CUresult custom_cuMemExportToShareableHandle(int variant, void *shareableHandle, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType handleType, unsigned long long flags) {
    const struct physical *p = hash_get(&handles, handle);
    if (p && p->virtual_handle && !p->virtual_handle->prop.requestedHandleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = to_real(&handle);
    return status ? status : REAL(cuMemExportToShareableHandle, variant)(shareableHandle, handle, handleType, flags);
}

CUresult custom_cuMemGetAllocationPropertiesFromHandle(int variant, CUmemAllocationProp *prop,
                                                       CUmemGenericAllocationHandle handle) {
    const struct physical *p = hash_get(&handles, handle);
    if (!p || !p->virtual_handle || !prop)
        return REAL(cuMemGetAllocationPropertiesFromHandle, variant)(prop, handle);
    *prop = p->virtual_handle->prop;
    return CUDA_SUCCESS;
}

CUresult custom_cuMulticastBindMem(int variant, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                   CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                   unsigned long long flags) {
    CUresult status = to_real(&memHandle);
    return status ? status : REAL(cuMulticastBindMem, variant)(mcHandle, mcOffset, memHandle, memOffset, size, flags);
}

CUresult custom_cuMulticastBindMem_v2(int variant, CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                      CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                      unsigned long long flags) {
    CUresult status = to_real(&memHandle);
    return status ? status
                  : REAL(cuMulticastBindMem_v2, variant)(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
}

/* By its address the driver would bind what lies there now. */
static CUresult to_real_at(CUdeviceptr address) {
    struct allocation a;
    struct physical *p = mapped_at(address);
    if (p && p->virtual_handle)
        return virtual_handle_make(p->virtual_handle);
    return provided_at(address, &a) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult custom_cuMulticastBindAddr(int variant, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                    CUdeviceptr memptr, size_t size, unsigned long long flags) {
    return to_real_at(memptr) ?: REAL(cuMulticastBindAddr, variant)(mcHandle, mcOffset, memptr, size, flags);
}

CUresult custom_cuMulticastBindAddr_v2(int variant, CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                       size_t mcOffset, CUdeviceptr memptr, size_t size, unsigned long long flags) {
    return to_real_at(memptr) ?: REAL(cuMulticastBindAddr_v2, variant)(mcHandle, dev, mcOffset, memptr, size, flags);
}
