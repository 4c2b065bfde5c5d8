/* Who holds an address. */
#include "backend/vmm/memory.h"

struct vmm_range *vmm_find(addr_t p, struct pager **device) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        struct vmm *v = vmm_in(d);
        struct vmm_range *r = v ? vmm_range_find(v, p) : NULL;
        *device = d;
        if (r)
            return r;
    }
    return NULL;
}

static bool is_alias(const struct vmm_pool *pool, addr_t p) {
    return p >= pool->aliases && p < vmm_alias(pool, pool->frames.capacity);
}

bool vmm_holds(addr_t p) {
    struct pager *d;
    for (d = pager_next(NULL); d; d = pager_next(d)) {
        const struct vmm *v = vmm_in(d);
        if (v && (is_alias(&v->pool[VMM_DEVICE], p) || is_alias(&v->pool[VMM_HOST], p)))
            return true;
    }
    /* what the program reserved is the driver's where nothing of ours is mapped */
    const struct vmm_range *r = vmm_find(p, &d);
    return r && (!r->reserved || vmm_page_at(&r->page[(p - r->start) / page_bytes]) != VMM_UNMAPPED);
}

struct vmm_range *vmm_range_at(const struct pager *d, addr_t p) {
    return pager_page_at(&d->memory.ranges, p) ? vmm_range_find(vmm_in(d), p) : NULL;
}

struct vmm_part *vmm_part_of(addr_t start, struct pager **d) {
    struct vmm_range *r = vmm_find(start, d);
    if (!r)
        return NULL;
    lock_take(&vmm_in(*d)->parts_lock);
    struct vmm_part *p = vmm_part_at(r, start);
    lock_drop(&vmm_in(*d)->parts_lock);
    return p && p->start == start && !p->deferred ? p : NULL;
}

/* That the engine knows: beside them mappings of the driver's may be. Under the lock. */
bool vmm_any_page(const struct pager *d, addr_t start, uint64_t bytes, bool (*is)(const struct vmm_page *)) {
    const struct vmm_range *r = NULL;
    bool any = false;
    for (addr_t p = start / page_bytes * page_bytes; !any && p < start + bytes; p += page_bytes) {
        if (!r || p >= r->start + r->bytes)
            r = vmm_range_at(d, p);
        any = r && is(&r->page[(p - r->start) / page_bytes]) && pager_page_at(&d->memory.ranges, p);
    }
    return any;
}
