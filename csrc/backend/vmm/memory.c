/* Remapped memory in the place of plain memory: how it comes and goes. */
#include <stdlib.h>

#include "backend/pager/call_scope.h"
#include "backend/vmm/deferred_release.h"
#include "backend/vmm/verify.h"
#include "base/log.h"
#include "driver/session.h"
#include "observe/stats.h"

/* --- devices --- */

static bool can_serve(int32_t device) {
    if (pager_device_has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
        pager_device_has(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device))
        return true;
    log_warn("device %d cannot map host memory by handles: nothing is replaced there, as with ULMS_BACKEND=observe",
             device);
    return false;
}

bool vmm_serves(int32_t device) {
    return pager_serves(device, can_serve);
}

static struct vmm *memory_new(int32_t device) {
    static struct frames_limit host_limit = FRAMES_LIMIT_NONE;
    struct vmm *v = malloc(sizeof *v);
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    uint64_t bytes = session.managed_limit ? session.managed_limit : pager_device_bytes(device);
    int node;
    if (REAL(cuDeviceGetAttribute, 0)(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node > 0)
        host.id = node;
    frames_limit_set(&host_limit, bytes);
    if (v && vmm_open(v, device, host, &host_limit))
        return v;
    free(v);
    return NULL;
}

struct vmm *vmm_of(struct pager *d) {
    static struct lock making;
    lock_take(&making);
    if (!vmm_in(d)) {
        __atomic_store_n(&d->own, memory_new(d->ordinal), __ATOMIC_RELEASE);
        if (vmm_in(d) && session.file_limit)
            vmm_file_beyond(d);
    }
    lock_drop(&making);
    return vmm_in(d);
}

uint64_t vmm_padding(const struct pager *d) {
    const struct vmm *v = vmm_in(d);
    return v ? __atomic_load_n(&v->padding_bytes, __ATOMIC_RELAXED) : 0;
}

uint64_t vmm_held(int32_t device) {
    const struct pager *d = pager_at(device);
    return d ? vmm_occupied(d) : 0;
}

bool vmm_relieve(int32_t device) {
    struct pager *d = pager_of(device);
    bool any = d && vmm_occupied(d) > 0;
    struct pager_visit v = pager_enter(NULL);
    bool freed = any && capture_allows(v.relaxed) && vmm_give_back(d, 0);
    pager_leave(v);
    return freed;
}

/* Idle frames beyond the budget are the driver's again at once, and those that pages leave still once they have. */
static void keep_to_budget(int32_t device) {
    struct pager *d = pager_at(device);
    if (!d || !vmm_in(d))
        return;
    pager_lock(d);
    frame_prefetcher_follow(d, 0);
    uint64_t most = vmm_frames_allowed(d);
    pager_unlock(d);
    if (vmm_occupied(d) <= most)
        return;
    struct pager_visit v = pager_enter(NULL);
    if (capture_allows(v.relaxed))
        vmm_give_back(d, most);
    pager_leave(v);
}

void vmm_plain(int32_t device) {
    pager_plain(device);
    keep_to_budget(device);
}

void vmm_coming(int32_t device, int64_t bytes) {
    pager_coming(device, bytes);
    if (bytes > 0)
        keep_to_budget(device);
}

/* --- memory that goes --- */

bool vmm_free(addr_t start, uint64_t context, int32_t *status) {
    struct pager *d;
    CUresult waited = CUDA_SUCCESS;
    struct vmm_part *p = vmm_part_of(start, &d);
    if (!p || p->range->reserved)
        return false;
    if (!context || vmm_context_wait(context, &waited))
        vmm_end_part(d, p);
    else
        deferred_release_add(p, context);
    *status = (int32_t)(vmm_is_lost(waited) ? waited : CUDA_SUCCESS);
    return true;
}

/* --- memory that comes --- */

uint64_t vmm_promise(struct pager *d, uint64_t most, uint64_t least) {
    pager_lock(d);
    uint64_t bytes = pager_moves(d) ? 0 : pager_fits(d, most) ? most : pager_fits(d, least) ? least : 0;
    frame_prefetcher_follow(d, least);
    pager_memory_set_aside(d, (int64_t)bytes);
    pager_budget_update(d);
    pager_unlock(d);
    return bytes;
}

void vmm_promise_end(struct pager *d, uint64_t bytes, struct vmm_range *r, struct vmm_pages fresh) {
    pager_lock(d);
    pager_memory_set_aside(d, -(int64_t)bytes);
    for (size_t i = fresh.first; i < fresh.end; i++) {
        r->page[i].aside = r->page[i].at == VMM_DEVICE;
        pager_memory_set_aside(d, r->page[i].aside ? (int64_t)page_bytes : 0);
    }
    pager_budget_update(d);
    pager_unlock(d);
}

/* Frames for its pages. On the device if all of it will be there. */
static bool fill(struct pager *d, struct vmm_part *p, uint64_t fresh) {
    uint64_t promised = vmm_promise(d, fresh, fresh);
    struct pager_visit v = pager_enter(NULL);
    bool good = capture_allows(v.relaxed) && vmm_part_fill(vmm_in(d), p, promised > 0, d->engine.run_pages);
    pager_leave(v);
    vmm_promise_end(d, promised, p->range, good ? vmm_part_own_pages(p) : (struct vmm_pages){0});
    return good;
}

/* The framework will probably use no more of memory of that size than whole pages: of the newest there is, its blocks
 * leave the end unused. (Two blocks of 8 MiB take 16 of PyTorch's segments of 20.) */
static bool leaves_end(const struct vmm *v, uint64_t bytes) {
    bool asks = bytes > page_bytes && bytes % page_bytes > 0 && ledger_blocks(session.ledger) > 0;
    const struct vmm_part *p = asks ? vmm_part_alike(v, bytes) : NULL;
    struct touch last;
    return p && ledger_last_block(session.ledger, p->start, p->start + bytes, &last) &&
           last.start + last.bytes <= p->start + bytes / page_bytes * page_bytes;
}

static bool part_make(struct pager *d, addr_t *start, uint64_t bytes) {
    uint64_t fresh;
    lock_take(&vmm_in(d)->parts_lock);
    struct vmm_part *p = vmm_part_new(vmm_in(d), bytes, leaves_end(vmm_in(d), bytes), &fresh);
    bool good = p && fill(d, p, fresh);
    if (good)
        *start = p->start;
    else if (p)
        vmm_part_delete(vmm_in(d), p);
    lock_drop(&vmm_in(d)->parts_lock);
    return good;
}

/* Frames need no context, but the driver allocates nothing in one that is gone or lost. */
static bool context_works(void) {
    size_t free_bytes, total;
    return REAL(cuMemGetInfo_v2, 0)(&free_bytes, &total) == CUDA_SUCCESS;
}

/* What was freed while something captured may be what there is no memory for. */
bool vmm_provide(addr_t *start, uint64_t bytes, int32_t device) {
    struct pager *d = pager_of(device);
    pager_returned(); /* what is deferred may be */
    return d && context_works() && vmm_of(d) &&
           (part_make(d, start, bytes) || (deferred_release_end(0) && part_make(d, start, bytes)) ||
            (deferred_release_end(PATIENCE_NS) && part_make(d, start, bytes)));
}

/* Before it can move. */
static void seal(struct vmm *v, struct vmm_range *r, size_t page) {
    struct pager_visit visit = pager_enter(NULL);
    if (capture_allows(visit.relaxed))
        vmm_verify_new(v, r, page);
    pager_leave(visit);
}

void vmm_arrive_page(struct pager *d, struct vmm_range *r, size_t i) {
    addr_t start = r->start + i * page_bytes;
    if (vmm_verifies())
        seal(vmm_in(d), r, i);
    pager_arrived(start, page_bytes, d->ordinal, r->page[i].aside ? page_bytes : 0);
    pager_lock(d);
    r->page[i].known = pager_page_at(&d->memory.ranges, start) != NULL;
    pager_unlock(d);
}

static void end_block(struct pager *d, const struct vmm_part *p) {
    if (p->told && !p->divided)
        ulms_engine_block(d->engine.core, p->start, p->bytes, false);
}

/* What the program asked to be managed is the driver's. On a page that it shares the content of the others is not dead
 * when the framework takes back the last block there: until one is told in it, a part is a block. */
void vmm_arrived(addr_t start, uint64_t bytes, int32_t device) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(start, &d);
    (void)device;
    if (!p)
        return;
    lock_take(&vmm_in(d)->parts_lock);
    struct vmm_pages s = vmm_part_pages(p);
    uint64_t fresh = 0;
    for (size_t i = s.first; i < s.end; i++)
        fresh += p->range->page[i].known || p->range->page[i].aside ? 0 : page_bytes;
    pager_lock(d);
    pager_make_room(d, fresh);
    pager_unlock(d);
    for (size_t i = s.first; i < s.end; i++)
        if (!p->range->page[i].known)
            vmm_arrive_page(d, p->range, i);
    pager_lock(d);
    if (__atomic_load_n(&vmm_in(d)->untrusted, __ATOMIC_RELAXED)) { /* dead pages that it shares may be stale */
        bool there = vmm_recall(d, start, start + bytes, d->window.next + 1, false);
        pager_moves_wait(d, start, bytes, false);
        if (!there)
            log_debug("device %d: memory that came shares a page with what is in the file", d->ordinal);
        vmm_map_stale(d, start, start + bytes);
    }
    pager_blocks_hear(d);
    pager_block_change(d, start, bytes, true);
    end_block(d, p); /* of what was hidden: what it shares was not dead meanwhile */
    p->told = true;
    p->divided = false;
    pager_unlock(d);
    lock_drop(&vmm_in(d)->parts_lock);
}

/* A page that could not be had on the device makes the engine rule before the budget is used up. */
void vmm_arrives(struct pager *d, addr_t start, uint64_t bytes, bool fits) {
    struct vmm_range *r = vmm_range_find(vmm_in(d), start);
    if (!r)
        return;
    size_t i = (start - r->start) / page_bytes;
    r->page[i].aside = false;
    /* freed in stream order while it was away, it was in no list when all that is away was mapped */
    vmm_range_map_stale(vmm_in(d), r, i, 1);
    bool there = r->page[i].at == VMM_DEVICE;
    if (there)
        ulms_engine_placed(d->engine.core, start, bytes);
    pager_budget_update(d);
    if (fits && !there && pager_all_fits(d))
        pager_start_moving(d, 0);
    stats_add(COUNT_placed_bytes, there ? bytes : 0);
}

void vmm_divided(struct pager *d, addr_t start, uint64_t bytes) {
    struct vmm_part *part;
    for (addr_t p = start; p < start + bytes; p = part ? part->start + part->bytes : p + PAGE_LEAST) {
        struct vmm_range *r = vmm_range_at(d, p);
        part = r ? vmm_part_at(r, p) : NULL;
        if (!part || part->divided)
            continue;
        end_block(d, part);
        part->divided = true;
    }
}

/* Its pages stay the engine's: what was issued before may still use them, and what comes next may get them. */
bool vmm_free_deferred(addr_t start, uint64_t bytes, bool unused) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(start, &d);
    (void)unused; /* an operation that is not over holds its pages */
    if (!p)
        return true;
    lock_take(&vmm_in(d)->parts_lock);
    pager_lock(d);
    pager_blocks_hear(d);
    if (p->told && !p->divided)
        pager_block_change(d, start, bytes, false);
    p->told = false;
    pager_wake(d);
    pager_unlock(d);
    lock_drop(&vmm_in(d)->parts_lock);
    return true;
}

void vmm_freeing(addr_t start, uint64_t bytes) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(start, &d);
    if (!p) {
        pager_freeing(start, bytes);
        return;
    }
    lock_take(&vmm_in(d)->parts_lock);
    vmm_leave_pages(d, p);
    pager_lock(d);
    pager_blocks_hear(d);
    if (!p->hidden) {
        end_block(d, p);
        p->told = false;
    }
    pager_unlock(d);
    lock_drop(&vmm_in(d)->parts_lock);
}
