#include "backend/vmm/own_handles.h"

#include <stdlib.h>

#include "backend/pager/call_scope.h"
#include "backend/vmm/deferred_release.h"
#include "driver/real.h"

struct promise {
    struct pager *device;
    struct vmm_stock stock;
    uint64_t promised; /* bytes */
};

/* --- memory without addresses --- */

/* It may have to lie across the most pages. */
static bool stock_take(struct promise *p, uint64_t bytes) {
    struct pager *d = p->device;
    uint64_t most = whole_pages(bytes + page_bytes - PAGE_LEAST);
    p->promised = vmm_promise(d, most, whole_pages(bytes));
    struct pager_visit v = pager_enter(NULL);
    bool good = capture_allows(v.relaxed) &&
                vmm_stock_take(vmm_in(d), &p->stock, most / page_bytes, p->promised / page_bytes, d->engine.run_pages);
    pager_leave(v);
    uint64_t taken = p->stock.count[VMM_DEVICE] * page_bytes;
    vmm_promise_end(d, p->promised - taken, NULL, (struct vmm_pages){0});
    p->promised = taken;
    return good;
}

static struct promise *promise(uint64_t bytes, int32_t device) {
    struct pager *d = pager_of(device);
    bool can = d && vmm_of(d) && !vmm_in(d)->beyond_host; /* its pages need frames of their own on the host */
    struct promise *p = can ? calloc(1, sizeof *p) : NULL;
    pager_returned(); /* what is deferred may be */
    if (p)
        p->device = d;
    if (p && !stock_take(p, bytes) && !(deferred_release_end(0) && stock_take(p, bytes))) {
        free(p);
        return NULL;
    }
    return p;
}

static void give_back(struct promise *p) {
    vmm_promise_end(p->device, p->promised, NULL, (struct vmm_pages){0});
    vmm_stock_give(vmm_in(p->device), &p->stock);
}

static void forgo(struct promise *p) {
    give_back(p);
    free(p);
}

/* --- addresses --- */

static bool open_range(addr_t start, uint64_t bytes, int32_t device) {
    struct pager *d = pager_of(device);
    struct vmm *v = d ? vmm_of(d) : NULL;
    if (!v)
        return false;
    lock_take(&v->parts_lock);
    bool opened = vmm_range_of_program(v, start, bytes) != NULL;
    lock_drop(&v->parts_lock);
    return opened;
}

static void close_range(addr_t start) {
    struct pager *d;
    struct vmm_range *r = vmm_own_range(start, &d);
    if (!r)
        return;
    lock_take(&vmm_in(d)->parts_lock);
    vmm_own_retry(vmm_in(d), r, r->start, r->start + r->bytes);
    if (r->parts == 0)
        vmm_range_delete(vmm_in(d), r);
    lock_drop(&vmm_in(d)->parts_lock);
}

/* --- memory at addresses --- */

static bool put(struct promise *promise, addr_t at, uint64_t bytes) {
    struct pager *d;
    struct vmm_range *r = vmm_own_range(at, &d);
    if (!r || d != promise->device)
        return false;
    lock_take(&vmm_in(d)->parts_lock);
    vmm_own_retry(vmm_in(d), r, at, at + bytes);
    struct vmm_part *p = vmm_part_new_at(vmm_in(d), r, at, bytes);
    bool good = p != NULL;
    if (p) {
        struct pager_visit v = pager_enter(NULL);
        good = capture_allows(v.relaxed) && vmm_part_fill_from(vmm_in(d), p, &promise->stock);
        vmm_stock_give(vmm_in(d), &promise->stock);
        pager_leave(v);
        vmm_promise_end(d, promise->promised, r, good ? vmm_part_own_pages(p) : (struct vmm_pages){0});
        promise->promised = 0;
        if (!good)
            vmm_part_delete(vmm_in(d), p);
    }
    lock_drop(&vmm_in(d)->parts_lock);
    if (good)
        free(promise);
    return good;
}

/* Its only frame is the one that has the content. */
static void keep_content(struct vmm *v, struct vmm_page *p) {
    if (p->at == VMM_DEVICE)
        vmm_page_drop(v, p, VMM_HOST);
    else if (p->at == VMM_HOST)
        vmm_page_drop(v, p, VMM_DEVICE);
}

/* What it shares with others stays mapped. */
static void hide(addr_t at) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(at, &d);
    if (!p)
        return;
    lock_take(&vmm_in(d)->parts_lock);
    struct vmm_pages own = vmm_part_own_pages(p);
    p->hidden = true;
    for (size_t i = own.first; i < own.end; i++) {
        if (p->range->page[i].known)
            vmm_leave_page(d, p->range, i);
        keep_content(vmm_in(d), &p->range->page[i]);
    }
    vmm_range_unmap(vmm_in(d), p->range, own.first, own.end - own.first, VMM_UNMAPPED);
    lock_drop(&vmm_in(d)->parts_lock);
}

static bool show(addr_t at) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(at, &d);
    if (!p)
        return false;
    lock_take(&vmm_in(d)->parts_lock);
    struct vmm_pages s = vmm_part_pages(p);
    bool good = vmm_own_map_again(vmm_in(d), p->range, s.first, s.end);
    p->hidden = !good;
    lock_drop(&vmm_in(d)->parts_lock);
    return good;
}

static void drop(addr_t at) {
    struct pager *d;
    struct vmm_part *p = vmm_part_of(at, &d);
    if (!p)
        return;
    p->hidden = false;
    vmm_freeing(p->start, p->bytes);
    vmm_end_part(d, p);
}

static void foreign(addr_t start, uint64_t bytes, bool mapped) {
    struct pager *d;
    struct vmm_range *r = vmm_own_range(start, &d);
    if (!r)
        return;
    lock_take(&vmm_in(d)->parts_lock);
    vmm_own_foreign(r, start, bytes, mapped);
    lock_drop(&vmm_in(d)->parts_lock);
}

const struct backend_own vmm_own = {.promise = promise,
                                    .forgo = forgo,
                                    .open = open_range,
                                    .close = close_range,
                                    .put = put,
                                    .hide = hide,
                                    .show = show,
                                    .drop = drop,
                                    .beside = vmm_own_beside,
                                    .replace = vmm_own_replace,
                                    .foreign = foreign};
