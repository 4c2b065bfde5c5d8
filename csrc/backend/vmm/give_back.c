/* Frames that the driver gets back. */
#include "backend/vmm/memory.h"
#include "backend/vmm/verify.h"

uint64_t vmm_occupied(const struct pager *d) {
    const struct vmm *v = vmm_in(d);
    const struct ulms_frames *frames = v ? &v->pool[VMM_DEVICE].frames : NULL;
    return v ? frames_bytes(frames) + frames_lingering(frames) * page_bytes : 0;
}

/* A walk over the pages that are stale at frames which were given back: they are mapped elsewhere. */
struct walk {
    addr_t at;    /* the next page */
    bool skipped; /* some are left for later */
};

/* Nobody uses it while it is away, if `unused`. */
static void map_elsewhere(struct vmm *v, struct vmm_range *r, size_t page, bool unused) {
    if (unused && vmm_range_unmap(v, r, page, 1, VMM_UNMAPPED)) {
        vmm_hold_vacant(v, r, page, 1);
        vmm_range_map(v, r, page, 1, VMM_HOST);
    } else {
        vmm_range_map_stale(v, r, page, 1);
    }
}

/* Maps the next. One at a time, so that nobody waits for long. False: there is none. */
static bool map_next_void(struct pager *d, struct walk *w) {
    bool mapped = false;
    pager_lock(d);
    for (size_t i = 0; i < d->memory.ranges.count && !mapped; i++) {
        addr_t start = d->memory.ranges.at[i].start;
        struct vmm_range *r = start >= w->at ? vmm_range_find(vmm_in(d), start) : NULL;
        size_t page = r ? (start - r->start) / page_bytes : 0;
        bool is_void = r && vmm_page_at(&r->page[page]) == VMM_STALE &&
                       frames_claim_is_void(&vmm_in(d)->pool[VMM_DEVICE].frames, &r->page[page].claim);
        bool moves = is_void && pager_moves_any(d, start, page_bytes);
        w->skipped = w->skipped || moves;
        mapped = is_void && !moves;
        if (mapped)
            map_elsewhere(vmm_in(d), r, page, vmm_goes_stale(d) && !vmm_verifies());
        w->at = start >= w->at ? start + page_bytes : w->at;
    }
    pager_unlock(d);
    return mapped;
}

/* The driver has the memory of a frame again only once no page is mapped there. Who asks for all does not rely on
 * another thread's walk. While pages leave, their movers need the lock: the walk takes one step at a time. */
bool vmm_give_back(struct pager *d, uint64_t most) {
    struct ulms_frames *pool = &vmm_in(d)->pool[VMM_DEVICE].frames;
    uint64_t before = frames_bytes(pool);
    frames_trim(pool, most);
    bool exceeds = most > 0 && frames_bytes(pool) > most;
    uint32_t lingering = frames_lingering(pool);
    bool freed = frames_bytes(pool) < before, walks = lingering > 0 || most == 0;
    struct walk w = {0};
    while (walks && map_next_void(d, &w)) {
        freed = true;
        walks = !exceeds;
        w.skipped = w.skipped || exceeds;
    }
    if (!w.skipped)
        frames_left(pool, lingering);
    return freed;
}

uint64_t vmm_frames_allowed(const struct pager *d) {
    return d->budget.bytes + d->budget.lent + d->memory.aside + d->memory.fixed;
}
