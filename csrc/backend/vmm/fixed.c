/* Memory that stays where it is: addresses of it are on the device, so that any operation may use it. */
#include "backend/vmm/extent.h"
#include "backend/vmm/memory.h"
#include "driver/session.h"

bool vmm_may_move(const struct vmm_page *p) {
    return !p->fixed;
}

/* From now on the engine does not know the page. Under the lock. */
static void fix_page(struct pager *d, addr_t p) {
    struct vmm_range *r = vmm_range_at(d, p);
    if (!r)
        return;
    struct vmm_page *page = &r->page[(p - r->start) / page_bytes];
    pager_memory_fix(d, !page->fixed && page->at == VMM_DEVICE ? (int64_t)page_bytes : 0);
    page->fixed = true;
}

/* They do not move, and none of them lies in the file. Under the lock, which is released meanwhile. */
static bool come_to_rest(struct pager *d, addr_t start, addr_t end, bool pauses) {
    bool rest;
    do
        rest = vmm_recall(d, start, end, d->window.next + 1, pauses) && pager_moves_wait(d, start, end - start, false);
    while (rest && vmm_any_filed(d, start, end));
    return rest;
}

bool vmm_fix(struct pager *d, addr_t start, addr_t end, bool pauses) {
    addr_t from = start / page_bytes * page_bytes;
    pager_lock(d);
    bool any = vmm_any_page(d, from, end - from, vmm_may_move), rest = !any || come_to_rest(d, from, end, pauses);
    if (any && rest) {
        vmm_map_stale(d, from, end);
        ulms_engine_freed(d->engine.core, from, whole_pages(end) - from);
        for (addr_t p = from; p < end; p += page_bytes)
            fix_page(d, p);
        pager_budget_update(d);
        pager_progressed(d);
        pager_wake(d);
    } else if (!rest && !pager_stops(d)) {
        pager_give_up(d,
                      "memory that is to stay does not come to rest"); /* or a kernel would use it unseen elsewhere */
    }
    pager_unlock(d);
    return rest;
}

/* Where any kernel may use any address, one more tells nothing. */
void vmm_pin_reachable(const addr_t *pointers, size_t n) {
    for (size_t i = 0; i < n && ulms_options.hidden != HIDDEN_ANY; i++) {
        struct pager *d;
        addr_t start;
        uint64_t bytes;
        if (vmm_find(pointers[i], &d) && vmm_reach(pointers[i], &start, &bytes))
            vmm_fix(d, start, start + bytes, false);
    }
}
