#include "pool.h"

#include "capture.h"
#include "memory.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

static CUmemoryPool pool_new(struct device *d, const CUmemPoolProps *props) {
    CUmemoryPool p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->device = d;
    p->props = *props;
    for (size_t i = 0; i < sizeof p->reuse / sizeof *p->reuse; i++)
        p->reuse[i] = 1;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

CUmemoryPool pool_default(struct device *d) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!d->default_pool) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, d->ordinal}};
        d->default_pool = d->pool = pool_new(d, &props);
    }
    pthread_mutex_unlock(&lock);
    return d->default_pool;
}

static CUmemoryPool current_pool(struct device *d) {
    return pool_default(d) ? d->pool : NULL;
}

bool pool_take(CUmemoryPool p, struct device *d, uint64_t bytes) {
    if (!device_take(d, bytes))
        return false;
    if (p) {
        uint64_t now = atomic_fetch_add(&p->reserved, bytes) + bytes, high = atomic_load(&p->reserved_high);
        while (high < now && !atomic_compare_exchange_weak(&p->reserved_high, &high, now))
            ;
    }
    return true;
}

void pool_give(CUmemoryPool p, struct device *d, uint64_t bytes) {
    device_give(d, bytes);
    if (p)
        atomic_fetch_sub(&p->reserved, bytes);
}

void pool_credit(CUmemoryPool p, uint64_t bytes) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->used -= bytes;
    bool last = p->destroyed && p->used == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        free(p);
}

bool pool_lets(CUmemoryPool p, int device, int mode) {
    return p && (mode & EMU_WRITE ? p->rights[device] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE : p->rights[device] != 0);
}

/* --- allocation --- */

/* Frees entered into streams give their memory back when they run: when there is none, they are worth waiting for. */
static CUresult take(CUcontext c, CUmemoryPool p, size_t bytes, struct area *made) {
    for (int attempt = 0; attempt < 2; attempt++) {
        if (p->props.maxSize && p->used + bytes > p->props.maxSize)
            return CUDA_ERROR_OUT_OF_MEMORY;
        CUresult result = memory_allocate(c, AREA_POOL, p->device, p, bytes, made);
        if (result == CUDA_SUCCESS)
            return result;
        if (attempt == 0 && bytes <= p->device->memory)
            context_wait(c);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool p, CUstream s) {
    CUresult result;
    if (!out || !p)
        return CUDA_ERROR_INVALID_VALUE;
    if (capture_is_on(s)) {
        CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = p->props, .bytesize = bytes};
        capture_allocates(s, &params, out, &result);
        return result;
    }
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct area made;
    result = take(s->context, p, bytes, &made);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&p->lock);
    p->used += made.charged ? made.charged : bytes; /* nothing else fits into what is left of its granules */
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
    pthread_mutex_unlock(&p->lock);
    *out = made.start;
    struct work w = {.kind = WORK_EMPTY};
    return stream_issue(s, &w);
}

STREAMED(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream), (out, bytes, stream)) {
    BEGIN_ON(stream);
    return allocate(out, bytes, current_pool(s->context->device), s);
}

STREAMED(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
         (out, bytes, pool, stream)) {
    BEGIN_ON(stream);
    return allocate(out, bytes, pool, s);
}

STREAMED(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream), (address, stream)) {
    BEGIN_ON(stream);
    struct area a;
    struct work w = {.kind = WORK_FREE, .allocation = {.address = address}};
    if (capture_is_on(s))
        return stream_issue(s, &w);
    if (!area_find(address, &a) || a.start != address ||
        !(1u << a.kind & (1u << AREA_POOL | 1u << AREA_PLAIN | 1u << AREA_GRAPH)))
        return CUDA_ERROR_INVALID_VALUE;
    return stream_issue(s, &w);
}

/* --- pools --- */

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    BEGIN(CALL_DRIVER);
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->handleTypes)
        NOT_EMULATED("cuMemPoolCreate for host memory or shared handles");
    if (!device_valid(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = pool_new(&devices[props->location.id], props);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool p) {
    BEGIN(CALL_DRIVER);
    if (!p || p == p->device->default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->device->pool == p)
        p->device->pool = p->device->default_pool;
    pthread_mutex_lock(&p->lock);
    p->destroyed = true;
    bool empty = p->used == 0;
    pthread_mutex_unlock(&p->lock);
    if (empty)
        free(p);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (!out || !device_valid(d))
        return CUDA_ERROR_INVALID_VALUE;
    *out = pool_default(&devices[d]);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (!out || !device_valid(d))
        return CUDA_ERROR_INVALID_VALUE;
    *out = current_pool(&devices[d]);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice d, CUmemoryPool p) {
    BEGIN(CALL_DRIVER);
    if (!p || !device_valid(d) || p->device != &devices[d])
        return CUDA_ERROR_INVALID_VALUE;
    devices[d].pool = p;
    return CUDA_SUCCESS;
}

/* Memory goes back as soon as it is free: there is never anything to trim. */
EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep) {
    BEGIN(CALL_DRIVER);
    (void)keep;
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute id, void *value) {
    BEGIN(CALL_DRIVER);
    CUresult result = CUDA_SUCCESS;
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&p->lock);
    if (id <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        memcpy(&p->reuse[id], value, sizeof p->reuse[id]);
    else if (id == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        memcpy(&p->threshold, value, sizeof p->threshold);
    else if (id == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        p->used_high = p->used;
    else if (id == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        atomic_store(&p->reserved_high, atomic_load(&p->reserved));
    else
        result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&p->lock);
    return result;
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute id, void *value) {
    BEGIN(CALL_DRIVER);
    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&p->lock);
    uint64_t high = p->used_high, used = p->used, threshold = p->threshold;
    uint64_t reserved = atomic_load(&p->reserved), reserved_high = atomic_load(&p->reserved_high);
    int reuse = p->reuse[id & 3];
    pthread_mutex_unlock(&p->lock);
    switch (id) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(value, &reuse, sizeof reuse);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(value, &threshold, sizeof threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        memcpy(value, &reserved, sizeof reserved);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        memcpy(value, &reserved_high, sizeof reserved_high);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        memcpy(value, &used, sizeof used);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        memcpy(value, &high, sizeof high);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *access, size_t n) {
    BEGIN(CALL_DRIVER);
    if (!p || !access)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_valid(access[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; i < n; i++)
        p->rights[access[i].location.id] = (unsigned char)access[i].flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool p, CUmemLocation *location) {
    BEGIN(CALL_DRIVER);
    if (!flags || !p || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !device_valid(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == p->device->ordinal ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                : (CUmemAccess_flags)p->rights[location->id];
    return CUDA_SUCCESS;
}
