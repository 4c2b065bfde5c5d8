/* What is mapped where a page is in the file: one frame for all of them, of the host until that is let go of. Trap: the
 * driver refuses an address that has no memory, also where nothing runs: in a capture, as the parameter of a node, and
 * when it is asked about it. */
#include "backend/vmm/vmm.h"

#include "base/spans.h"

/* Taken where there is room for it, and kept. 0: there was none yet. */
static CUmemGenericAllocationHandle handle(struct vmm *v) {
    struct placeholder *p = &v->placeholder;
    lock_take(&p->lock);
    if (!p->there) {
        p->place = VMM_HOST;
        p->there = frames_take(&v->pool[p->place].frames, &p->frame, 1, false);
    }
    CUmemGenericAllocationHandle found = p->there ? v->pool[p->place].handles[p->frame] : 0;
    lock_drop(&p->lock);
    return found;
}

static bool put(const struct vmm *v, addr_t at, CUmemGenericAllocationHandle placeholder) {
    if (!vmm_map(at, page_bytes, placeholder))
        return false;
    bool allowed = vmm_allow(at, page_bytes, &v->users);
    if (!allowed)
        vmm_unmap(at, page_bytes);
    return allowed;
}

void vmm_hold_places(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++) {
        struct vmm_page *page = &r->page[i];
        bool bare = page->at == VMM_UNMAPPED && vmm_page_is_filed(page);
        CUmemGenericAllocationHandle held = bare ? handle(v) : 0;
        if (held && put(v, r->start + i * page_bytes, held))
            vmm_page_lies(page, VMM_FILED);
    }
}

/* The first behind *at of which pages may be in the file; moves *at behind it. NULL: there is none. */
static struct vmm_range *next_range(struct vmm *v, addr_t *at) {
    struct vmm_range *found = NULL;
    lock_take(&v->lock);
    for (size_t i = spans_behind(&v->ranges, *at); i < v->ranges.count && !found; i++) {
        struct vmm_range *r = v->ranges.at[i].what;
        *at = r->start + r->bytes;
        found = r->reserved ? NULL : r;
    }
    lock_drop(&v->lock);
    return found;
}

const char *vmm_placeholder_to_device(struct vmm *v, uint32_t *frame) {
    struct placeholder *p = &v->placeholder;
    uint32_t here;
    addr_t at = 0;
    *frame = NO_FRAME;
    if (!p->there || p->place == VMM_DEVICE)
        return NULL;
    if (!frames_take(&v->pool[VMM_DEVICE].frames, &here, 1, false))
        return "the device has no room for one page";
    lock_take(&p->lock);
    *frame = p->frame;
    p->place = VMM_DEVICE;
    p->frame = here;
    lock_drop(&p->lock);
    for (struct vmm_range *r; (r = next_range(v, &at));)
        for (size_t i = 0; i < r->bytes / page_bytes; i++) {
            if (r->page[i].at != VMM_FILED)
                continue;
            if (!vmm_range_unmap(v, r, i, 1, VMM_UNMAPPED))
                return "the driver refuses to unmap";
            vmm_hold_places(v, r, i, 1);
        }
    return NULL;
}
