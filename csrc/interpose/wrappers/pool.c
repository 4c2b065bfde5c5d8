/* Stream-ordered memory and its pools. Plain memory is charged as the driver holds it for the pools (reserved.h).
 *
 * Provided memory is in no pool of the driver's. Here it is in the one that the program named, and told with it. */
#include "interpose/wrappers/pool.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/hash.h"
#include "base/larger.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/page.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/reserved.h"
#include "interpose/replace/provide.h"

/* Bytes provided, and the same in whole grains; most: at one time. */
struct holding {
    uint64_t used, reserved, most_used, most_reserved;
};

struct pool {
    CUmemoryPool handle;
    int device;          /* or DEVICE_NONE */
    bool replaced;       /* its memory may be provided: it is on a device, without a limit, not for other processes */
    uint64_t keeps;      /* bytes, as the program waits (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) */
    unsigned references; /* the handle; provided memory, which outlives it */
    struct holding holding;
};

struct piece {
    struct pool *pool;
    uint64_t bytes;
};

static struct hash pools;  /* handle -> struct pool */
static struct hash pieces; /* start of provided memory -> struct piece */
static struct lock lock;   /* of references and holdings, and of the life of pools */

static void drop(struct pool *p) {
    if (p && --p->references == 0)
        free(p);
}

/* The caller holds the lock. NULL: no memory, and nothing is known of the pool. */
static struct pool *know(CUmemoryPool handle, int device, bool replaced) {
    struct pool *p = malloc(sizeof *p);
    bool stored = false;
    if (!p)
        return NULL;
    *p = (struct pool){.handle = handle, .device = device, .replaced = replaced, .references = 1};
    drop(hash_put(&pools, (uint64_t)(uintptr_t)handle, p, &stored));
    if (stored)
        return p;
    free(p);
    return NULL;
}

/* The caller holds the lock. Pools that the program did not make are the devices' own, or not ours to judge: NULL. */
static struct pool *pool_find(CUmemoryPool handle) {
    struct pool *p = hash_get(&pools, (uint64_t)(uintptr_t)handle);
    CUmemoryPool own;
    int device = context_device();
    if (!p && REAL(cuDeviceGetDefaultMemPool, 0)(&own, device) == CUDA_SUCCESS && own == handle)
        p = know(handle, device, true);
    return p;
}

/* Of the stream, which may be another than the current context's; default streams are that one's. */
static int stream_device(int variant, CUstream stream) {
    CUcontext before;
    bool named = session_on && session.devices > 1 && stream_key(variant, stream) > (uintptr_t)CU_STREAM_PER_THREAD;
    if (!named || !context_enter_stream(variant, stream, &before))
        return context_device();
    int device = context_device();
    context_leave(before);
    return device;
}

static int pool_device(CUmemoryPool handle, int otherwise) {
    lock_take(&lock);
    struct pool *p = hash_get(&pools, (uint64_t)(uintptr_t)handle);
    int device = p ? p->device : otherwise;
    lock_drop(&lock);
    return device;
}

/* --- provided memory --- */

/* The caller holds the lock. */
static void hold(struct pool *p, addr_t start, uint64_t bytes) {
    struct holding *h = &p->holding;
    struct piece *piece = malloc(sizeof *piece);
    bool stored = false;
    if (!piece)
        return;
    *piece = (struct piece){p, bytes};
    free(hash_put(&pieces, start, piece, &stored));
    if (!stored) {
        free(piece);
        return;
    }
    p->references++;
    h->used += bytes;
    h->reserved += whole_grains(bytes);
    h->most_used = larger(h->most_used, h->used);
    h->most_reserved = larger(h->most_reserved, h->reserved);
}

/* Captured, an allocation becomes a node: memory is taken when the graph is instantiated, and charged there. */
static bool captured(int variant, CUstream stream) {
    return capture_any() && capture_holds(stream_key(variant, stream));
}

/* As provide. handle NULL: the pool that is the device's at present. */
static bool provide_from(struct charge *c, CUmemoryPool handle, int variant, CUstream stream, uint64_t bytes,
                         CUdeviceptr *dptr) {
    int device = context_device();
    if (!session_on || !session.backend->serves(device) || captured(variant, stream) ||
        stream_device(variant, stream) != device ||
        (!handle && REAL(cuDeviceGetMemPool, 0)(&handle, device) != CUDA_SUCCESS))
        return false;
    lock_take(&lock);
    struct pool *p = pool_find(handle);
    bool replaced = p && p->replaced && p->device == device;
    if (replaced)
        p->references++;
    lock_drop(&lock);
    if (!replaced)
        return false;
    bool answered = provide_in_order(c, bytes, (struct stream_order){variant, stream}, dptr);
    lock_take(&lock);
    if (answered && c->status == CUDA_SUCCESS)
        hold(p, *dptr, bytes);
    drop(p);
    lock_drop(&lock);
    return answered;
}

CUmemoryPool pool_of(addr_t start) {
    lock_take(&lock);
    struct piece *piece = hash_get(&pieces, start);
    CUmemoryPool handle = piece ? piece->pool->handle : NULL;
    lock_drop(&lock);
    return handle;
}

/* The pool that keeps the memory when it is freed, or NULL. What is kept must not crowd out what is used. */
static CUmemoryPool keeper(addr_t start) {
    uint64_t kept = deferred_kept();
    lock_take(&lock);
    struct piece *piece = hash_get(&pieces, start);
    struct pool *p = piece ? piece->pool : NULL;
    bool keeps = p && p->keeps >= kept + p->holding.reserved && provide_room(p->device) / 2 >= kept + piece->bytes;
    CUmemoryPool handle = keeps ? p->handle : NULL;
    lock_drop(&lock);
    return handle;
}

void pool_left(addr_t start) {
    lock_take(&lock);
    struct piece *piece = hash_take(&pieces, start);
    if (piece) {
        piece->pool->holding.used -= piece->bytes;
        piece->pool->holding.reserved -= whole_grains(piece->bytes);
        drop(piece->pool);
    }
    lock_drop(&lock);
    free(piece);
}

/* --- calls --- */

/* Captured, an allocation becomes a node: what its graph takes is charged when that is launched. */
static CUresult capture(CUresult status, const CUdeviceptr *dptr, uint64_t bytes, int device) {
    struct charge c = {.recorded = session_on, .device = device, .kind = MEMORY_GRAPH, .reserved = true};
    CUdeviceptr start = status == CUDA_SUCCESS ? *dptr : 0;
    charge_close(&c, status, &start, bytes);
    return status;
}

static CUresult allocate(int variant, CUdeviceptr *dptr, uint64_t bytes, CUmemoryPool handle, CUstream stream) {
    return handle ? REAL(cuMemAllocFromPoolAsync, variant)(dptr, bytes, handle, stream)
                  : REAL(cuMemAllocAsync, variant)(dptr, bytes, stream);
}

/* The pool became larger than the limit lets it be: an allocation that did not fit into what it had unused. */
static bool passed(const struct charge *c) {
    return charge_limited(c->device, c->kind) && ledger_plain(session.ledger, c->device) > capacity_of(c->device);
}

/* Makes the call, and sees what the driver holds for the pool then. False: more than the limit lets it. */
static bool try(struct charge *c, int variant, CUdeviceptr *dptr, uint64_t bytes, CUmemoryPool handle,
                CUstream stream) {
    c->status = RELIEVED(c, allocate(variant, dptr, bytes, handle, stream));
    reserved_look(c->device);
    if (c->status != CUDA_SUCCESS || !passed(c))
        return true;
    REAL(cuMemFreeAsync, variant)(*dptr, stream);
    return false;
}

/* From the pool that the program named, or the device's: what the driver holds for it then is charged, and not what was
 * asked for, unless nobody knows the pool. What fits into what a pool has unused needs no promise. */
static CUresult allocate_plain(int variant, CUdeviceptr *dptr, uint64_t bytes, CUmemoryPool handle, CUstream stream) {
    struct charge c;
    CUmemoryPool pool = handle;
    if (!session_on)
        return allocate(variant, dptr, bytes, handle, stream);
    int device = handle ? pool_device(handle, stream_device(variant, stream)) : stream_device(variant, stream);
    if (!pool)
        REAL(cuDeviceGetMemPool, 0)(&pool, device);
    if (pool)
        reserved_know(device, pool);
    charge_open(&c, device, MEMORY_ASYNC, 0);
    bool reuses = pool && charge_limited(device, MEMORY_ASYNC) && reserved_unused(pool) >= bytes;
    if (!reuses || !try(&c, variant, dptr, bytes, handle, stream)) {
        if (!charge_open(&c, device, MEMORY_ASYNC, bytes))
            return c.status;
        if (!try(&c, variant, dptr, bytes, handle, stream))
            charge_refuse(&c, bytes);
    }
    c.reserved = pool != NULL;
    if (pool && c.status == CUDA_SUCCESS)
        reserved_gave(pool, *dptr, bytes);
    charge_close(&c, c.status, dptr, bytes);
    return c.status;
}

CUresult custom_cuMemAllocAsync(int variant, CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    struct charge c;
    if (session_on && captured(variant, hStream))
        return capture(REAL(cuMemAllocAsync, variant)(dptr, bytesize, hStream), dptr, bytesize,
                       stream_device(variant, hStream));
    if (provide_from(&c, NULL, variant, hStream, bytesize, dptr))
        return c.status;
    return allocate_plain(variant, dptr, bytesize, NULL, hStream);
}

CUresult custom_cuMemAllocFromPoolAsync(int variant, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                        CUstream hStream) {
    struct charge c;
    if (session_on && captured(variant, hStream))
        return capture(REAL(cuMemAllocFromPoolAsync, variant)(dptr, bytesize, pool, hStream), dptr, bytesize,
                       pool_device(pool, stream_device(variant, hStream)));
    if (provide_from(&c, pool, variant, hStream, bytesize, dptr))
        return c.status;
    return allocate_plain(variant, dptr, bytesize, pool, hStream);
}

/* A captured free is a node: the memory stays until the graph runs. What was provided is no graph's, and the driver
 * does not know it. */
static bool free_captured(int variant, addr_t start, CUstream stream) {
    struct allocation a;
    if (capture_any() && provided_at(start, &a))
        return capture_is_said(stream_key(variant, stream));
    return captured(variant, stream);
}

CUresult custom_cuMemFreeAsync(int variant, CUdeviceptr dptr, CUstream hStream) {
    struct dealloc p = {0};
    struct allocation left;
    if (provided_before(dptr, &left))
        return memory_free(0, dptr, left.context);
    CUmemoryPool keeps = session_on ? keeper(dptr) : NULL;
    if (session_on && !free_captured(variant, dptr, hStream))
        dealloc_open_deferred(&p, dptr);
    if (!p.recorded || !provided(&p.gone))
        return dealloc_close(&p, REAL(cuMemFreeAsync, variant)(dptr, hStream));
    CUresult status;
    if (!deferred_free(&p.gone, (struct stream_order){variant, hStream}, keeps, &status)) {
        memory_leave(&p.gone);
        return dealloc_close(&p, memory_free(0, dptr, p.gone.context));
    }
    return status == CUDA_SUCCESS ? status : dealloc_close(&p, status);
}

static bool is_foreign(const CUmemLocation *location) {
    return location && location->type != CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult custom_cuMemPoolImportFromShareableHandle(int variant, CUmemoryPool *pool_out, void *handle,
                                                   CUmemAllocationHandleType handleType, unsigned long long flags) {
    gate_enter(&session.foreign, 1);
    CUresult status = REAL(cuMemPoolImportFromShareableHandle, variant)(pool_out, handle, handleType, flags);
    gate_leave(&session.foreign, status != CUDA_SUCCESS);
    return status;
}

CUresult custom_cuMemGetDefaultMemPool(int variant, CUmemoryPool *pool_out, CUmemLocation *location,
                                       CUmemAllocationType type) {
    gate_enter(&session.foreign, is_foreign(location));
    CUresult status = REAL(cuMemGetDefaultMemPool, variant)(pool_out, location, type);
    gate_leave(&session.foreign, is_foreign(location) && status != CUDA_SUCCESS);
    return status;
}

CUresult custom_cuMemGetMemPool(int variant, CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    gate_enter(&session.foreign, is_foreign(location));
    CUresult status = REAL(cuMemGetMemPool, variant)(pool, location, type);
    gate_leave(&session.foreign, is_foreign(location) && status != CUDA_SUCCESS);
    return status;
}

CUresult custom_cuMemPoolCreate(int variant, CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    bool foreign = poolProps && is_foreign(&poolProps->location);
    gate_enter(&session.foreign, foreign);
    CUresult status = REAL(cuMemPoolCreate, variant)(pool, poolProps);
    gate_leave(&session.foreign, foreign && status != CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && session_on) {
        bool device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        bool shared = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
        lock_take(&lock);
        know(*pool, device ? poolProps->location.id : DEVICE_NONE, device && !shared && !poolProps->maxSize);
        lock_drop(&lock);
    }
    return status;
}

/* What is known of it is kept until the driver has destroyed it. */
CUresult custom_cuMemPoolDestroy(int variant, CUmemoryPool pool) {
    lock_take(&lock);
    struct pool *known = hash_take(&pools, (uint64_t)(uintptr_t)pool);
    lock_drop(&lock);
    reserved_leaves(pool);
    CUresult status = REAL(cuMemPoolDestroy, variant)(pool);
    reserved_left(pool, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && known) {
        lock_take(&lock);
        known->keeps = 0; /* of what outlives it */
        lock_drop(&lock);
        deferred_unkeep(pool);
    }
    lock_take(&lock);
    if (status == CUDA_SUCCESS)
        drop(known);
    else if (known)
        drop(hash_put(&pools, (uint64_t)(uintptr_t)pool, known, NULL));
    lock_drop(&lock);
    return status;
}

static void add(void *value, uint64_t bytes) {
    uint64_t told;
    memcpy(&told, value, sizeof told);
    told += bytes;
    memcpy(value, &told, sizeof told);
}

CUresult custom_cuMemPoolGetAttribute(int variant, CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    CUresult status = REAL(cuMemPoolGetAttribute, variant)(pool, attr, value);
    if (status != CUDA_SUCCESS || !session_on)
        return status;
    lock_take(&lock);
    struct pool *p = hash_get(&pools, (uint64_t)(uintptr_t)pool);
    struct holding h = p ? p->holding : (struct holding){0};
    lock_drop(&lock);
    if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        add(value, h.used);
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        add(value, h.most_used);
    else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        add(value, h.reserved);
    else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        add(value, h.most_reserved);
    return status;
}

CUresult custom_cuMemPoolSetAttribute(int variant, CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
    CUresult status = REAL(cuMemPoolSetAttribute, variant)(pool, attr, value);
    if (status != CUDA_SUCCESS || !session_on)
        return status;
    lock_take(&lock);
    struct pool *p = pool_find(pool);
    if (p && attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        p->holding.most_used = p->holding.used;
    else if (p && attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        p->holding.most_reserved = p->holding.reserved;
    else if (p && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        memcpy(&p->keeps, value, sizeof p->keeps);
    lock_drop(&lock);
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        deferred_unkeep(pool); /* what was kept by another threshold */
    return status;
}

CUresult custom_cuMemPoolTrimTo(int variant, CUmemoryPool pool, size_t minBytesToKeep) {
    CUresult status = REAL(cuMemPoolTrimTo, variant)(pool, minBytesToKeep);
    if (status == CUDA_SUCCESS && session_on)
        deferred_unkeep(pool);
    return status;
}

CUresult custom_cuMemPoolImportPointer(int variant, CUdeviceptr *ptr_out, CUmemoryPool pool,
                                       CUmemPoolPtrExportData *shareData) {
    CUresult status = REAL(cuMemPoolImportPointer, variant)(ptr_out, pool, shareData);
    if (status == CUDA_SUCCESS)
        memory_note_imported(*ptr_out);
    return status;
}
