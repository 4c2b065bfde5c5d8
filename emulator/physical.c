#include "physical.h"

#include "cost.h"
#include "environment.h"
#include "memory.h"
#include "shared.h"
#include "space.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int shared_file = -1; /* where handles lie that are not to be exported: descriptors are few */
static struct space offsets;
static uint64_t length;               /* of that file */
static uint64_t host_used, host_most; /* bytes */

/* By handle, which is a place here, from 1; NULL: it is gone. No handle comes twice. */
static struct physical **known;
static uint64_t made, room;

/* NULL: no memory. It has one handle. */
static struct physical *physical_new(void) {
    enum { FIRST = 64 };
    struct physical *p = calloc(1, sizeof *p);
    pthread_mutex_lock(&lock);
    if (p && made == room) {
        uint64_t more = room ? 2 * room : FIRST;
        struct physical **larger = realloc(known, more * sizeof *known);
        known = larger ? larger : known;
        room = larger ? more : room;
    }
    if (p && made < room) {
        known[made] = p;
        p->handle = ++made;
    }
    pthread_mutex_unlock(&lock);
    if (!p || !p->handle) {
        free(p);
        return NULL;
    }
    atomic_store(&p->handles, 1);
    return p;
}

static void physical_free(struct physical *p) {
    pthread_mutex_lock(&lock);
    known[p->handle - 1] = NULL;
    pthread_mutex_unlock(&lock);
    free(p);
}

struct physical *physical_of(CUmemGenericAllocationHandle h) {
    pthread_mutex_lock(&lock);
    struct physical *p = h > 0 && h <= made ? known[h - 1] : NULL;
    pthread_mutex_unlock(&lock);
    return p;
}

/* False: EMU_HOST_MEMORY is used up. */
static bool host_take(uint64_t bytes) {
    static uint64_t total;
    pthread_mutex_lock(&lock);
    total = total ? total : environment_number("EMU_HOST_MEMORY", UINT64_MAX);
    bool good = bytes <= total - host_used;
    host_used += good ? bytes : 0;
    host_most = host_used > host_most ? host_used : host_most;
    pthread_mutex_unlock(&lock);
    return good;
}

static void host_give(uint64_t bytes) {
    pthread_mutex_lock(&lock);
    host_used -= bytes;
    pthread_mutex_unlock(&lock);
}

EXPORT void emu_host_memory(uint64_t *used, uint64_t *most) {
    pthread_mutex_lock(&lock);
    *used = host_used;
    *most = host_most;
    pthread_mutex_unlock(&lock);
}

/* The memory of a handle, which is charged to where it lies. */
static bool take(struct device *d, uint64_t bytes) {
    return d ? device_take(d, bytes) : host_take(bytes);
}

static void give(struct device *d, uint64_t bytes) {
    if (d)
        device_give(d, bytes);
    else
        host_give(bytes);
}

static bool open_file(struct physical *p) {
    if (p->prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        /* Whoever imports the descriptor reads the location from the file's name. */
        char name[64];
        snprintf(name, sizeof name, "emu-handle-%d-%d", (int)p->prop.location.type, p->prop.location.id);
        p->file = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
        p->own_file = true;
        if (p->file >= 0 && ftruncate(p->file, (off_t)p->bytes) == 0)
            return true;
        close(p->file);
        return false;
    }
    pthread_mutex_lock(&lock);
    const uint64_t room = 4ull << 40;
    if (shared_file < 0) {
        shared_file = (int)syscall(SYS_memfd_create, "emu-handles", MFD_CLOEXEC);
        /* Offset 0 is never given out: 0 means that there is none. */
        if (shared_file >= 0 && !space_add(&offsets, GRANULE, room - GRANULE))
            shared_file = -1;
    }
    p->file = shared_file;
    p->offset = shared_file >= 0 ? space_take(&offsets, p->bytes, GRANULE) : 0;
    if (p->offset && !memory_lengthen(shared_file, &length, p->offset + p->bytes)) {
        space_add(&offsets, p->offset, p->bytes);
        p->offset = 0;
    }
    pthread_mutex_unlock(&lock);
    return p->offset != 0;
}

static void close_file(struct physical *p) {
    if (p->own_file) {
        close(p->file);
        return;
    }
    memory_clear(p->file, p->offset, p->bytes);
    pthread_mutex_lock(&lock);
    space_add(&offsets, p->offset, p->bytes);
    pthread_mutex_unlock(&lock);
}

bool physical_device(const CUmemLocation *l, struct device **out) {
    *out = NULL;
    switch (l->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *out = device_valid(l->id) ? &devices[l->id] : NULL;
        return *out != NULL;
    case CU_MEM_LOCATION_TYPE_HOST:
        return driver_version >= 13000;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return l->id == 0;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return true;
    default:
        return false;
    }
}

CALL(cuMemCreate, CALL_PASSES, CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
     unsigned long long flags) {
    struct device *d;
    INVALID_IF(!out || !prop || flags || bytes == 0 || bytes % GRANULE || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED);
    if (!physical_device(&prop->location, &d))
        return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                                  : CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        NOT_EMULATED("cuMemCreate for handle types other than file descriptors");
    cost_call(cost_vmm(d ? VMM_CREATE : VMM_CREATE_HOST, bytes));
    if (!take(d, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct physical *p = physical_new();
    if (p) {
        p->prop = *prop;
        p->device = d;
        p->bytes = bytes;
        p->charged = bytes;
    }
    if (!p || !open_file(p)) {
        if (p)
            physical_free(p);
        give(d, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!d)
        atomic_fetch_add(&shared_life()->on_host, 1);
    *out = p->handle;
    return CUDA_SUCCESS;
}

/* Called when a handle or a mapping went. */
static void physical_put(struct physical *p, atomic_uint *count) {
    /* Both counts are looked at under the lock, so that one caller frees it. */
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(count, 1);
    bool unused = atomic_load(&p->handles) == 0 && atomic_load(&p->mappings) == 0;
    pthread_mutex_unlock(&lock);
    if (!unused)
        return;
    close_file(p);
    if (p->charged)
        give(p->device, p->charged);
    if (p->charged && !p->device)
        atomic_fetch_sub(&shared_life()->on_host, 1);
    physical_free(p);
}

void physical_unmapped(struct physical *p) {
    physical_put(p, &p->mappings);
}

CALL(cuMemRelease, CALL_PASSES, CUmemGenericAllocationHandle handle) {
    struct physical *p = physical_of(handle);
    INVALID_IF(!p || atomic_load(&p->handles) == 0);
    cost_call(cost_vmm(VMM_RELEASE, p->bytes));
    physical_put(p, &p->handles);
    return CUDA_SUCCESS;
}

CALL(cuMemRetainAllocationHandle, CALL_PASSES, CUmemGenericAllocationHandle *out, void *address) {
    struct area a;
    INVALID_IF(!out || !area_find((uint64_t)(uintptr_t)address, &a) || a.kind != AREA_VMM);
    atomic_fetch_add(&a.physical->handles, 1);
    *out = a.physical->handle;
    return CUDA_SUCCESS;
}

CALL(cuMemGetAllocationPropertiesFromHandle, CALL_PASSES, CUmemAllocationProp *prop,
     CUmemGenericAllocationHandle handle) {
    const struct physical *p = physical_of(handle);
    INVALID_IF(!prop || !p);
    *prop = p->prop;
    return CUDA_SUCCESS;
}

CALL(cuMemGetAllocationGranularity, CALL_PASSES, size_t *granularity, const CUmemAllocationProp *prop,
     CUmemAllocationGranularity_flags option) {
    struct device *d;
    INVALID_IF(!granularity || !prop || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ||
               !physical_device(&prop->location, &d));
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

CALL(cuMemExportToShareableHandle, CALL_PASSES, void *out, CUmemGenericAllocationHandle handle,
     CUmemAllocationHandleType type, unsigned long long flags) {
    struct physical *p = physical_of(handle);
    INVALID_IF(!out || !p || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !p->own_file);
    int fd = fcntl(p->file, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(out, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

/* The memory stays charged to whoever made it: this process counts nothing for it. */
CALL(cuMemImportFromShareableHandle, CALL_PASSES, CUmemGenericAllocationHandle *out, void *shared,
     CUmemAllocationHandleType type) {
    INVALID_IF(!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    int fd = (int)(intptr_t)shared, location, id;
    char path[32], name[128] = "";
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    INVALID_IF(readlink(path, name, sizeof name - 1) < 0 ||
               sscanf(name, "/memfd:emu-handle-%d-%d", &location, &id) != 2 || fstat(fd, &status) != 0);
    struct physical *p = physical_new();
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->prop = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {(CUmemLocationType)location, id}};
    if (!physical_device(&p->prop.location, &p->device)) {
        physical_free(p);
        return CUDA_ERROR_INVALID_DEVICE;
    }
    p->bytes = (uint64_t)status.st_size;
    p->file = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    p->own_file = true;
    *out = p->handle;
    return CUDA_SUCCESS;
}
