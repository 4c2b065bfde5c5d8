#include "backend/vmm/own_handles.h"

struct vmm_range *vmm_own_range(addr_t p, struct pager **d) {
    struct vmm_range *r = vmm_find(p, d);
    return r && r->reserved ? r : NULL;
}

void vmm_own_retry(struct vmm *v, struct vmm_range *r, addr_t start, addr_t end) {
    struct vmm_part *p;
    for (addr_t at = start; r->parts > 0 && at < end; at += PAGE_LEAST)
        if ((p = vmm_part_at(r, at)) && p->deferred)
            vmm_part_delete(v, p);
}

bool vmm_own_map_again(struct vmm *v, struct vmm_range *r, size_t first, size_t end) {
    bool good = true;
    for (size_t i = first; i < end; i++)
        if (r->page[i].at == VMM_UNMAPPED)
            good = vmm_range_map(v, r, i, 1, vmm_own_content(&r->page[i])) && good;
    return good;
}

void vmm_own_foreign(struct vmm_range *r, addr_t start, uint64_t bytes, bool mapped) {
    size_t end = whole_pages(start + bytes - r->start) / page_bytes;
    for (size_t i = (start - r->start) / page_bytes; i < end; i++)
        r->page[i].foreign += mapped ? 1 : (uint16_t)-1;
}
