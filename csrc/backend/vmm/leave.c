/* Memory that goes: out of the engine, and then to the driver. */
#include "backend/vmm/memory.h"

/* It is not the engine's any more, and occupies what it has of the device until it is released, or comes again. */
void vmm_leave_page(struct pager *d, struct vmm_range *r, size_t i) {
    struct vmm_page *page = &r->page[i];
    pager_freeing(r->start + i * page_bytes, page_bytes);
    pager_lock(d);
    bool there = page->at == VMM_DEVICE;
    pager_memory_fix(d, there && page->fixed ? -(int64_t)page_bytes : 0);
    pager_memory_set_aside(d, there ? (int64_t)page_bytes : 0);
    page->aside = there;
    page->fixed = false;
    pager_budget_update(d);
    pager_unlock(d);
    page->known = false;
}

/* The pages that no other part is on. */
void vmm_leave_pages(struct pager *d, const struct vmm_part *p) {
    struct vmm_pages s = vmm_part_pages(p);
    for (size_t i = s.first; i < s.end; i++)
        if (p->range->page[i].known && p->range->page[i].parts == 1)
            vmm_leave_page(d, p->range, i);
}

/* A page that is about to go. Under the lock. False: a move of it is under way, as the process ends, or the driver did
 * not end it for longer than anybody waits. */
static bool may_go(struct pager *d, struct vmm_range *r, size_t i) {
    if (r->page[i].parts > 1)
        return true;
    if (pager_moves_go_on(d, r->start + i * page_bytes, page_bytes))
        return false;
    pager_memory_set_aside(d, r->page[i].aside ? -(int64_t)page_bytes : 0);
    r->page[i].aside = false;
    return true;
}

void vmm_end_part(struct pager *d, struct vmm_part *p) {
    bool goes = true;
    lock_take(&vmm_in(d)->parts_lock);
    vmm_leave_pages(d, p);
    pager_lock(d);
    struct vmm_pages s = vmm_part_pages(p);
    for (size_t i = s.first; i < s.end; i++)
        goes = may_go(d, p->range, i) && goes;
    pager_budget_update(d);
    pager_unlock(d);
    if (goes)
        vmm_part_delete(vmm_in(d), p);
    lock_drop(&vmm_in(d)->parts_lock);
    pager_lock(d);
    vmm_placeholder_look(d);
    uint64_t most = vmm_frames_allowed(d);
    pager_unlock(d);
    if (goes)
        frames_trim(&vmm_in(d)->pool[VMM_DEVICE].frames, most);
}
