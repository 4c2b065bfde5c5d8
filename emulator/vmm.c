#include "vmm.h"

#include "cost.h"
#include "physical.h"

#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *reservations;

/* --- reserved addresses --- */

static int order(const void *left, const void *right) {
    const struct range *a = left, *b = right;
    if (a->start + a->bytes <= b->start)
        return -1;
    return a->start >= b->start + b->bytes;
}

/* The one that holds the range. Under the lock. */
static struct range *find_reservation(uint64_t start, uint64_t bytes) {
    struct range key = {start, 1}, **found = tfind(&key, &reservations, order);
    return found && bytes <= (*found)->start + (*found)->bytes - start ? *found : NULL;
}

bool vmm_reserved(uint64_t address) {
    pthread_mutex_lock(&lock);
    bool found = find_reservation(address, 1) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

CALL(cuMemAddressReserve, CALL_PASSES, CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
     unsigned long long flags) {
    INVALID_IF(!out || bytes == 0 || bytes % GRANULE || flags || (alignment & (alignment - 1)));
    struct range *r = malloc(sizeof *r);
    uint64_t start = r ? memory_reserve(bytes, alignment > GRANULE ? alignment : GRANULE, wanted) : 0;
    if (!start) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct range){start, bytes};
    pthread_mutex_lock(&lock);
    tsearch(r, &reservations, order);
    pthread_mutex_unlock(&lock);
    *out = start;
    return CUDA_SUCCESS;
}

CALL(cuMemAddressFree, CALL_PASSES, CUdeviceptr start, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct range *r = bytes ? find_reservation(start, bytes) : NULL;
    struct area a;
    bool good = r && r->start == start && r->bytes == bytes;
    for (uint64_t at = start; good && at < start + bytes; at += GRANULE)
        good = !area_find(at, &a);
    if (good)
        tdelete(r, &reservations, order);
    pthread_mutex_unlock(&lock);
    INVALID_IF(!good);
    free(r);
    memory_unreserve(start, bytes);
    return CUDA_SUCCESS;
}

/* --- mappings --- */

static void *bytes_of(uint64_t address) {
    return (void *)(uintptr_t)(address + (uint64_t)alias);
}

bool vmm_map_bytes(uint64_t start, uint64_t bytes, int file, uint64_t offset) {
    if (mmap(bytes_of(start), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
             (off_t)offset) == MAP_FAILED)
        return false;
    madvise(bytes_of(start), bytes, MADV_DONTFORK);
    return true;
}

void vmm_unmap_bytes(uint64_t start, uint64_t bytes) {
    vmm_map_bytes(start, bytes, memory_file(), start - memory_base());
    mmap((void *)(uintptr_t)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

CALL(cuMemMap, CALL_PASSES, CUdeviceptr start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags) {
    struct physical *p = physical_of(handle);
    INVALID_IF(!p || flags || bytes == 0 || bytes % GRANULE || start % GRANULE || offset % GRANULE ||
               bytes > p->bytes || offset > p->bytes - bytes);
    pthread_mutex_lock(&lock);
    bool reserved = find_reservation(start, bytes) != NULL;
    pthread_mutex_unlock(&lock);
    INVALID_IF(!reserved);
    atomic_fetch_add(&p->mappings, 1); /* the caller's handle keeps it meanwhile */
    cost_call(cost_vmm(p->device ? VMM_MAP : VMM_MAP_HOST, bytes));
    struct area a = {
        .start = start, .bytes = bytes, .kind = AREA_VMM, .device = p->device, .physical = p, .offset = offset};
    bool added = area_add(&a);
    if (added && vmm_map_bytes(start, bytes, p->file, p->offset + offset))
        return CUDA_SUCCESS;
    if (added)
        area_remove(start, 1u << AREA_VMM, &a);
    physical_unmapped(p);
    return added ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

struct span {
    uint64_t start, end;
    double cost;
    bool good;
    const CUmemAccessDesc *access;
    struct device *to; /* NULL: the host */
};

static bool check_unmap(struct area *a, uint64_t start, uint64_t end, void *data) {
    struct span *s = data;
    s->good = s->good && a->kind == AREA_VMM && a->start >= s->start && a->start + a->bytes <= s->end;
    if (s->good)
        s->cost += cost_vmm(a->device ? VMM_UNMAP : VMM_UNMAP_HOST, a->bytes);
    return s->good;
}

CALL(cuMemUnmap, CALL_PASSES, CUdeviceptr start, size_t bytes) {
    struct span s = {.start = start, .end = start + bytes, .good = bytes && bytes % GRANULE == 0};
    struct area a;
    area_visit(start, bytes, NULL, check_unmap, &s);
    INVALID_IF(!s.good || !vmm_reserved(start));
    cost_call(s.cost);
    for (uint64_t at = start; at < start + bytes;) {
        uint64_t next = area_find(at, &a) ? a.start + a.bytes : at + GRANULE;
        memory_free(at, 1u << AREA_VMM);
        at = next;
    }
    return CUDA_SUCCESS;
}

/* The host may be given only what lies in host memory. */
static bool check_access(struct area *a, uint64_t start, uint64_t end, void *data) {
    struct span *s = data;
    s->good = a->kind == AREA_VMM && (s->to || !a->device);
    return s->good;
}

static bool set_access(struct area *a, uint64_t start, uint64_t end, void *data) {
    struct span *s = data;
    a->rights[s->to ? s->to->ordinal : DEVICES_MAX] = (unsigned char)s->access->flags;
    s->cost += cost_vmm(a->device ? VMM_ACCESS : VMM_ACCESS_HOST, a->bytes);
    if (!s->to) {
        int protection = s->access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                         : s->access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                                : PROT_NONE;
        s->good = mmap((void *)(uintptr_t)a->start, a->bytes, protection, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                       a->physical->file, (off_t)(a->physical->offset + a->offset)) != MAP_FAILED;
    }
    return s->good;
}

CALL(cuMemSetAccess, CALL_PASSES, CUdeviceptr start, size_t bytes, const CUmemAccessDesc *access, size_t n) {
    double cost = 0;
    INVALID_IF(!access || n == 0 || bytes == 0 || bytes % GRANULE || start % GRANULE);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            struct span s = {.access = &access[i], .good = true};
            bool covered;
            INVALID_IF(!physical_device(&access[i].location, &s.to));
            area_visit(start, bytes, &covered, pass ? set_access : check_access, &s);
            INVALID_IF(!covered || !s.good);
            cost += s.cost;
        }
    }
    cost_call(cost);
    return CUDA_SUCCESS;
}

CALL(cuMemGetAccess, CALL_PASSES, unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
    struct area a;
    struct device *d;
    INVALID_IF(!flags || !location || !physical_device(location, &d) || !area_find(address, &a));
    *flags = a.kind != AREA_VMM ? 0 : a.rights[d ? d->ordinal : DEVICES_MAX];
    return CUDA_SUCCESS;
}

EXPORT int emu_mapped(uint64_t address) {
    struct area found;
    return area_find(address, &found) && found.kind == AREA_VMM;
}
