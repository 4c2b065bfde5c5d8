/* What a page holds. */
#include "backend/vmm/vmm.h"

void vmm_page_drop(struct vmm *v, struct vmm_page *p, enum vmm_place place) {
    if (p->frame[place] != NO_FRAME)
        ulms_frames_give(&v->pool[place].frames, &p->frame[place], 1);
    p->frame[place] = NO_FRAME;
    p->filled = p->filled && place != VMM_HOST;
}

void vmm_page_file(struct vmm *v, struct vmm_page *p, uint32_t slot) {
    uint32_t before = __atomic_exchange_n(&p->slot, slot, __ATOMIC_RELAXED);
    __atomic_fetch_add(&v->filed, (uint32_t)(slot != NO_SLOT) - (before != NO_SLOT), __ATOMIC_RELAXED);
    if (before != NO_SLOT)
        page_file_give(v->file, before);
}

size_t vmm_page_next(const struct vmm_range *r, size_t *first, size_t end, bool (*is)(const struct vmm_page *)) {
    size_t n = 0;
    while (*first < end && !is(&r->page[*first]))
        ++*first;
    while (*first + n < end && is(&r->page[*first + n]))
        n++;
    return n;
}
