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

/* The device's own pool, made on first use; NULL: no memory. */
static CUmemoryPool pool_default(struct device *d) {
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
        unsigned long long now = atomic_fetch_add(&p->reserved, bytes) + bytes, high = atomic_load(&p->reserved_high);
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
    INVALID_IF(!out || !p);
    if (capture_is_on(s)) {
        CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = p->props, .bytesize = bytes};
        capture_allocates(s, &params, out, &result);
        return result;
    }
    INVALID_IF(bytes == 0);
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

CALL_ON(cuMemAllocAsync, CUdeviceptr *out, size_t bytes, CUstream stream) {
    return allocate(out, bytes, current_pool(s->context->device), s);
}

CALL_ON(cuMemAllocFromPoolAsync, CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return allocate(out, bytes, pool, s);
}

CALL_ON(cuMemFreeAsync, CUdeviceptr address, CUstream stream) {
    struct area a;
    struct work w = {.kind = WORK_FREE, .allocation = {.address = address}};
    if (capture_is_on(s))
        return stream_issue(s, &w);
    INVALID_IF(!area_find(address, &a) || a.start != address ||
               !(1u << a.kind & (1u << AREA_POOL | 1u << AREA_PLAIN | 1u << AREA_GRAPH)));
    return stream_issue(s, &w);
}

/* --- pools --- */

CALL(cuMemPoolCreate, CALL_DRIVER, CUmemoryPool *out, const CUmemPoolProps *props) {
    INVALID_IF(!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED);
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->handleTypes)
        NOT_EMULATED("cuMemPoolCreate for host memory or shared handles");
    if (!device_valid(props->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = pool_new(&devices[props->location.id], props);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuMemPoolDestroy, CALL_DRIVER, CUmemoryPool p) {
    INVALID_IF(!p || p == p->device->default_pool);
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

CALL(cuDeviceGetDefaultMemPool, CALL_DRIVER, CUmemoryPool *out, CUdevice d) {
    INVALID_IF(!out || !device_valid(d));
    *out = pool_default(&devices[d]);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuDeviceGetMemPool, CALL_DRIVER, CUmemoryPool *out, CUdevice d) {
    INVALID_IF(!out || !device_valid(d));
    *out = current_pool(&devices[d]);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuDeviceSetMemPool, CALL_DRIVER, CUdevice d, CUmemoryPool p) {
    INVALID_IF(!p || !device_valid(d) || p->device != &devices[d]);
    devices[d].pool = p;
    return CUDA_SUCCESS;
}

/* Memory goes back as soon as it is free: there is never anything to trim. */
CALL(cuMemPoolTrimTo, CALL_DRIVER, CUmemoryPool p, size_t keep) {
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuMemPoolSetAttribute, CALL_DRIVER, CUmemoryPool p, CUmemPool_attribute id, void *value) {
    CUresult result = CUDA_SUCCESS;
    INVALID_IF(!p || !value);
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

CALL(cuMemPoolGetAttribute, CALL_DRIVER, CUmemoryPool p, CUmemPool_attribute id, void *value) {
    INVALID_IF(!p || !value || id < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
               id > CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    pthread_mutex_lock(&p->lock);
    uint64_t bytes = id == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD      ? p->threshold
                     : id == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? atomic_load(&p->reserved)
                     : id == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH    ? atomic_load(&p->reserved_high)
                     : id == CU_MEMPOOL_ATTR_USED_MEM_CURRENT     ? p->used
                                                                  : p->used_high;
    if (id <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        memcpy(value, &p->reuse[id], sizeof p->reuse[id]);
    else
        memcpy(value, &bytes, sizeof bytes);
    pthread_mutex_unlock(&p->lock);
    return CUDA_SUCCESS;
}
