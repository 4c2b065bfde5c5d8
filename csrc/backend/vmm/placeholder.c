/* What is mapped where a page is in the file: one frame of the host for all of them. Trap: the driver refuses an
 * address that has no memory, also where nothing runs: in a capture, as the parameter of a node, and when it is asked
 * about it. */
#include "backend/vmm/vmm.h"

/* Taken where there is room for it, and kept. NO_FRAME: there was none yet. */
static uint32_t frame(struct vmm *v) {
    struct placeholder *p = &v->placeholder;
    lock_take(&p->lock);
    if (!p->there)
        p->there = frames_take(&v->pool[VMM_HOST].frames, &p->frame, 1, false);
    uint32_t found = p->there ? p->frame : NO_FRAME;
    lock_drop(&p->lock);
    return found;
}

static bool put(const struct vmm *v, addr_t at, uint32_t frame) {
    if (!vmm_map(at, page_bytes, v->pool[VMM_HOST].handles[frame]))
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
        uint32_t held = bare ? frame(v) : NO_FRAME;
        if (held != NO_FRAME && put(v, r->start + i * page_bytes, held))
            vmm_page_lies(page, VMM_FILED);
    }
}
