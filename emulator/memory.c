#include "memory.h"

#include "managed.h"
#include "physical.h"
#include "pool.h"
#include "space.h"
#include "vmm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SMALL = 1 << 20, SMALL_ALIGN = 512 }; /* pieces up to SMALL bytes share granules */
enum { CLEARED_AT_ONCE = 64 << 10, KEPT_MOST = 64 << 20 };

int64_t alias;
static uint64_t base;
static int file = -1;
static uint64_t length; /* of the file: CRIU reads all of it. Under the lock */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct space addresses;
static struct space of_graphs;          /* addresses that graphs have reserved */
static struct space small[DEVICES_MAX]; /* what is free of the granules that small pieces share */

CUresult memory_open(void) {
    /* Half of it are the addresses, half the bytes; a sanitizer or valgrind leaves less room. */
    for (uint64_t size = 4ull << 40; size >= 16ull << 30; size /= 2) {
        void *at = mmap(NULL, 2 * size + GRANULE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        base = whole_granules((uint64_t)(uintptr_t)at);
        alias = (int64_t)size;
        file = (int)syscall(SYS_memfd_create, "emu-device-memory", MFD_CLOEXEC);
        if (file < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        void *bytes = (void *)(uintptr_t)(base + size);
        if (mmap(bytes, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) {
            close(file);
            munmap(at, 2 * size + GRANULE);
            continue;
        }
        /* As with the driver's own mappings, a child has nothing here. */
        madvise(at, 2 * size, MADV_DONTFORK);
        madvise(at, 2 * size, MADV_DONTDUMP);
        return space_add(&addresses, base, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

int memory_file(void) {
    return file;
}

uint64_t memory_base(void) {
    return base;
}

bool memory_holds(uint64_t address, uint64_t bytes) {
    return address >= base && address - base <= (uint64_t)alias && bytes <= (uint64_t)alias - (address - base);
}

bool memory_lengthen(int of, uint64_t *is, uint64_t least) {
    if (least > *is && ftruncate(of, (off_t)least) != 0)
        return false;
    *is = least > *is ? least : *is;
    return true;
}

uint64_t memory_reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted) {
    if (bytes > (uint64_t)alias)
        return 0;
    pthread_mutex_lock(&lock);
    bool there = wanted && wanted % alignment == 0 && space_take_at(&addresses, wanted, bytes);
    uint64_t start = there ? wanted : space_take(&addresses, bytes, alignment);
    if (start && !memory_lengthen(file, &length, start + bytes - base)) {
        space_add(&addresses, start, bytes);
        start = 0;
    }
    pthread_mutex_unlock(&lock);
    return start;
}

void memory_unreserve(uint64_t start, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    space_add(&addresses, start, bytes);
    pthread_mutex_unlock(&lock);
}

uint64_t memory_reserve_for_graph(uint64_t bytes) {
    if (bytes > (uint64_t)alias)
        return 0;
    uint64_t whole = whole_granules(bytes), start = memory_reserve(whole, GRANULE, 0);
    pthread_mutex_lock(&lock);
    bool noted = start && space_add(&of_graphs, start, whole);
    pthread_mutex_unlock(&lock);
    return noted ? start : 0;
}

static bool of_graph(uint64_t address) {
    pthread_mutex_lock(&lock);
    bool graph = space_holds(&of_graphs, address);
    pthread_mutex_unlock(&lock);
    return graph;
}

bool memory_reaches(uint64_t start, uint64_t bytes) {
    struct area a;
    if (of_graph(start) || bytes > UINT64_MAX - start)
        return bytes <= UINT64_MAX - start;
    if (!area_find(start, &a))
        return vmm_reserved(start);
    uint64_t end = a.start + a.bytes;
    while (end < start + bytes && a.kind == AREA_VMM && area_find(end, &a) && a.kind == AREA_VMM)
        end = a.start + a.bytes;
    return end >= start + bytes;
}

bool memory_is_mapped(uint64_t start, uint64_t bytes) {
    struct area a;
    return memory_reaches(start, bytes) && (of_graph(start) || area_find(start, &a));
}

static uint64_t rounded(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

void memory_clear(int of, uint64_t offset, uint64_t bytes) {
    static const char zeros[CLEARED_AT_ONCE];
    if (bytes > KEPT_MOST) {
        fallocate(of, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
        return;
    }
    const off_t end = (off_t)(offset + bytes);
    for (off_t at = (off_t)offset, n; (at = lseek(of, at, SEEK_DATA)) >= 0 && at < end; at += n) {
        n = end - at < CLEARED_AT_ONCE ? end - at : CLEARED_AT_ONCE;
        if (pwrite(of, zeros, (size_t)n, at) != n)
            abort();
    }
}

static void empty(uint64_t start, uint64_t bytes) {
    memory_clear(file, start - base, bytes);
}

/* --- small pieces --- */

static struct space *small_space(struct device *d, CUmemoryPool pool) {
    return pool ? &pool->small : &small[d->ordinal];
}

static uint64_t small_take(struct device *d, CUmemoryPool pool, uint64_t bytes) {
    struct space *s = small_space(d, pool);
    uint64_t need = rounded(bytes, SMALL_ALIGN);
    pthread_mutex_lock(&lock);
    uint64_t start = space_take(s, need, SMALL_ALIGN);
    pthread_mutex_unlock(&lock);
    if (start || !pool_take(pool, d, GRANULE))
        return start;
    uint64_t granule = memory_reserve(GRANULE, GRANULE, 0);
    if (!granule) {
        pool_give(pool, d, GRANULE);
        return 0;
    }
    pthread_mutex_lock(&lock);
    start = space_take(s, need, SMALL_ALIGN); /* another thread may have made room: one granule too many would stay */
    bool spare = start || !space_add(s, granule, GRANULE);
    if (!spare)
        start = space_take(s, need, SMALL_ALIGN);
    else
        space_add(&addresses, granule, GRANULE);
    pthread_mutex_unlock(&lock);
    if (spare)
        pool_give(pool, d, GRANULE);
    return start;
}

static void small_give(struct device *d, CUmemoryPool pool, uint64_t start, uint64_t bytes) {
    struct space *s = small_space(d, pool);
    uint64_t end = start + rounded(bytes, SMALL_ALIGN);
    pthread_mutex_lock(&lock);
    space_add(s, start, end - start);
    for (uint64_t granule = start / GRANULE * GRANULE; granule < end; granule += GRANULE) {
        if (!space_take_at(s, granule, GRANULE))
            continue;
        empty(granule, GRANULE);
        space_add(&addresses, granule, GRANULE);
        pool_give(pool, d, GRANULE);
    }
    pthread_mutex_unlock(&lock);
}

/* --- allocation --- */

static CUresult enter(CUcontext c, enum area_kind kind, struct device *d, CUmemoryPool pool, uint64_t start,
                      uint64_t bytes, uint64_t charged, struct area *made) {
    *made = (struct area){
        .start = start, .bytes = bytes, .kind = kind, .device = d, .context = c, .pool = pool, .charged = charged};
    return area_add(made) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_allocate(CUcontext c, enum area_kind kind, struct device *d, CUmemoryPool pool, uint64_t bytes,
                         struct area *made) {
    if (bytes <= SMALL) {
        uint64_t start = small_take(d, pool, bytes);
        if (!start || enter(c, kind, d, pool, start, bytes, 0, made) == CUDA_SUCCESS)
            return start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        small_give(d, pool, start, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (bytes > (uint64_t)alias)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t whole = whole_granules(bytes);
    if (!pool_take(pool, d, whole))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t start = memory_reserve(whole, GRANULE, 0);
    if (start && enter(c, kind, d, pool, start, bytes, whole, made) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (start)
        memory_unreserve(start, whole);
    pool_give(pool, d, whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_back(CUcontext c, struct device *d, uint64_t start, uint64_t bytes) {
    struct area made;
    memory_free(start, 1u << AREA_GRAPH); /* an earlier launch's, which nobody freed */
    CUresult result = enter(c, AREA_GRAPH, d, NULL, start, bytes, 0, &made);
    if (result == CUDA_SUCCESS)
        atomic_fetch_add(&d->graph_used, whole_granules(bytes));
    return result;
}

/* Undoes what made the area, which nobody finds any more. */
static void dispose(struct area *a) {
    uint64_t whole = whole_granules(a->bytes);
    switch (a->kind) {
    case AREA_PLAIN:
    case AREA_POOL:
    case AREA_VARIABLE:
        if (a->charged == 0) {
            small_give(a->device, a->pool, a->start, a->bytes);
        } else {
            empty(a->start, whole);
            memory_unreserve(a->start, whole);
            pool_give(a->pool, a->device, a->charged);
        }
        pool_credit(a->pool, a->charged ? a->charged : a->bytes);
        return;
    case AREA_MANAGED:
        managed_dispose(a);
        empty(a->start, whole);
        memory_unreserve(a->start, whole);
        break;
    case AREA_GRAPH:
        empty(a->start, whole); /* its addresses are the graph's */
        atomic_fetch_sub(&a->device->graph_used, whole);
        break;
    case AREA_IPC:
        whole = whole_granules(a->offset + a->bytes);
        vmm_unmap_bytes(a->start - a->offset, whole);
        memory_unreserve(a->start - a->offset, whole);
        break;
    case AREA_PINNED:
        munmap((void *)(uintptr_t)a->start, rounded(a->bytes, (uint64_t)sysconf(_SC_PAGESIZE)));
        break;
    case AREA_VMM:
        vmm_unmap_bytes(a->start, a->bytes);
        physical_unmapped(a->physical);
        break;
    case AREA_REGISTERED:
        break;
    }
    if (a->device && a->charged)
        device_give(a->device, a->charged);
}

bool memory_free(uint64_t start, unsigned kinds) {
    struct area a;
    if (!area_remove(start, kinds, &a))
        return false;
    dispose(&a);
    return true;
}

bool memory_free_drained(CUcontext c, uint64_t start, unsigned kinds) {
    context_drain(c);
    bool freed = memory_free(start, kinds);
    pthread_mutex_unlock(&c->lock);
    return freed;
}

void memory_free_context(CUcontext c) {
    struct area a;
    while (area_remove_of_context(c, &a))
        dispose(&a);
}
