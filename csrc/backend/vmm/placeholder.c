/* The placeholder: mapped where a page has given up its frame, for as long as it is away. Trap: the driver refuses an
 * address that has no memory, also where nothing runs: in a capture, as the parameter of a node, and when it is asked
 * about it. It maps a frame of the device six times as fast as one of the host. */
#include "backend/vmm/vmm.h"

/* Not where pages go to the file by themselves: then it is one of the host, which stays, as there may be none later,
 * unless all of the host's are let go. */
void vmm_placeholder_adopt(struct vmm *v, struct vmm_page *page) {
    struct placeholder *p = &v->placeholder;
    uint32_t frame = page->frame[VMM_DEVICE];
    lock_take(&p->lock);
    if (!p->there && !v->beyond_host && frame != NO_FRAME && !v->pool[VMM_DEVICE].pieces[frame]) {
        p->there = true;
        p->place = VMM_DEVICE;
        p->frame = frame;
        page->frame[VMM_DEVICE] = NO_FRAME;
    }
    lock_drop(&p->lock);
}

bool vmm_placeholder_is_here(struct vmm *v, bool comes) {
    struct placeholder *p = &v->placeholder;
    lock_take(&p->lock);
    bool here = p->there ? p->place == VMM_DEVICE : comes && !v->beyond_host;
    lock_drop(&p->lock);
    return here;
}

/* Its handle, for n pages more; 0: there is none. One of the host is taken if `takes` says so, and there is room. */
static CUmemGenericAllocationHandle begin(struct vmm *v, size_t n, bool takes) {
    struct placeholder *p = &v->placeholder;
    lock_take(&p->lock);
    if (!p->there && takes) {
        p->place = VMM_HOST;
        p->there = frames_take(&v->pool[p->place].frames, &p->frame, 1, false);
    }
    CUmemGenericAllocationHandle found = p->there ? v->pool[p->place].handles[p->frame] : 0;
    p->pages += found ? n : 0;
    lock_drop(&p->lock);
    return found;
}

void vmm_placeholder_left(struct vmm *v, size_t n) {
    struct placeholder *p = &v->placeholder;
    uint32_t on_host;
    lock_take(&p->lock);
    p->pages -= n;
    bool unused = p->there && p->pages == 0 && p->place == VMM_DEVICE;
    if (unused && (!v->beyond_host || frames_take(&v->pool[VMM_HOST].frames, &on_host, 1, false))) {
        ulms_frames_give(&v->pool[VMM_DEVICE].frames, &p->frame, 1);
        p->there = v->beyond_host;
        p->place = VMM_HOST;
        p->frame = on_host;
    }
    lock_drop(&p->lock);
}

/* All or none of the pages, which are unmapped. */
static void hold(struct vmm *v, struct vmm_range *r, size_t first, size_t n, bool takes) {
    CUmemGenericAllocationHandle held = begin(v, n, takes);
    addr_t start = r->start + first * page_bytes;
    size_t done = 0;
    while (held && done < n && vmm_map(start + done * page_bytes, page_bytes, held))
        done++;
    if (done == n && vmm_allow(start, n * page_bytes, &v->users)) {
        for (size_t i = first; i < first + n; i++)
            vmm_page_lies(&r->page[i], VMM_PLACEHOLDER);
        return;
    }
    if (held && (done == 0 || vmm_unmap_again(start, done * page_bytes))) /* else it is nobody else's, for good */
        vmm_placeholder_left(v, n);
}

void vmm_hold_places(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++)
        if (r->page[i].at == VMM_UNMAPPED && vmm_page_is_filed(&r->page[i]))
            hold(v, r, i, 1, true);
}

void vmm_hold_vacant(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    size_t end = first + n;
    for (size_t run; (run = vmm_page_next(r, &first, end, vmm_page_is_unmapped)) > 0; first += run)
        hold(v, r, first, run, false);
}

bool vmm_placeholder_to_device(struct vmm *v, uint32_t *frame) {
    struct placeholder *p = &v->placeholder;
    uint32_t here;
    bool good = true;
    *frame = NO_FRAME;
    lock_take(&p->lock);
    if (p->there && p->place == VMM_HOST && p->pages == 0) {
        p->there = false;
        ulms_frames_give(&v->pool[VMM_HOST].frames, &p->frame, 1);
    } else if (p->there && p->place == VMM_HOST && (good = frames_take(&v->pool[VMM_DEVICE].frames, &here, 1, false))) {
        *frame = p->frame;
        p->place = VMM_DEVICE;
        p->frame = here;
        p->pages++;
    }
    lock_drop(&p->lock);
    return good;
}
