/* The process lets go of the device: its memory lies in a file, and no handle of the host is left. */
#include <stdio.h>

#include "backend/vmm/memory.h"
#include "base/spans.h"

/* The first behind *at; moves *at behind it. NULL: there is none. */
static struct vmm_range *next_range(struct vmm *v, addr_t *at) {
    struct vmm_range *found = NULL;
    lock_take(&v->lock);
    size_t i = spans_behind(&v->ranges, *at);
    if (i < v->ranges.count) {
        found = v->ranges.at[i].what;
        *at = found->start + found->bytes;
    }
    lock_drop(&v->lock);
    return found;
}

/* NULL, or why not all are mapped where the placeholder lies now. */
static const char *map_again(struct vmm *v) {
    addr_t at = 0;
    for (struct vmm_range *r; (r = next_range(v, &at));)
        for (size_t i = 0; i < r->bytes / page_bytes; i++) {
            if (r->page[i].at != VMM_PLACEHOLDER)
                continue;
            if (!vmm_range_unmap(v, r, i, 1, VMM_UNMAPPED))
                return "the driver refuses to unmap";
            vmm_hold_vacant(v, r, i, 1);
        }
    return NULL;
}

/* The placeholder lies on the device. NULL, or why not. Under the lock, with that of the parts. */
static const char *leave_host(struct pager *d) {
    struct vmm *v = vmm_in(d);
    uint32_t frame;
    if (d->moves.under_way)
        return "";
    if (!vmm_placeholder_to_device(v, &frame))
        return "the device has no room for one page";
    if (frame == NO_FRAME)
        return NULL;
    const char *why = map_again(v);
    vmm_placeholder_left(v, 1);
    vmm_placeholder_look(d);
    if (!why)
        ulms_frames_give(&v->pool[VMM_HOST].frames, &frame, 1);
    return why;
}

const char *vmm_let_go(struct pager *d, bool lets) {
    struct vmm *v = vmm_in(d);
    struct vmm_pool *host = v ? &v->pool[VMM_HOST] : NULL;
    if (!v || !lets) {
        if (v) {
            page_file_again(v->file);
            gate_open(&host->gate, d->ordinal);
        }
        return NULL;
    }
    lock_take(&v->parts_lock);
    pager_lock(d);
    const char *why = leave_host(d);
    pager_unlock(d);
    lock_drop(&v->parts_lock);
    if (why)
        return why;
    gate_close(&host->gate, d->ordinal);
    frames_trim(&host->frames, 0);
    size_t there = gate_close(&host->gate, d->ordinal);
    if (there == 0)
        return NULL;
    gate_open(&host->gate, d->ordinal);
    snprintf(v->kept, sizeof v->kept, "%llu MiB on the host cannot go to a file",
             (unsigned long long)(there * page_bytes >> 20));
    return v->kept;
}
