/* Handles of the driver's take the place of what lies at addresses that the program chose. */
#include <stdlib.h>

#include "backend/vmm/deferred_release.h"
#include "backend/vmm/own_handles.h"
#include "driver/real.h"

/* Pages of the range that no part outside reaches into. Under `parts_lock`. */
static struct vmm_pages closed(const struct vmm_range *r, addr_t start, uint64_t bytes) {
    struct vmm_pages s = {(start - r->start) / page_bytes, whole_pages(start + bytes - r->start) / page_bytes}, before;
    do {
        before = s;
        for (addr_t at = r->start + before.first * page_bytes; at < r->start + before.end * page_bytes;
             at += PAGE_LEAST) {
            const struct vmm_part *p = vmm_part_at(r, at);
            struct vmm_pages its = p ? vmm_part_pages(p) : before;
            s.first = its.first < s.first ? its.first : s.first;
            s.end = its.end > s.end ? its.end : s.end;
        }
    } while (s.first < before.first || s.end > before.end);
    return s;
}

size_t vmm_own_beside(addr_t start, uint64_t bytes, addr_t *out, size_t n) {
    struct pager *d;
    struct vmm_range *r = vmm_own_range(start, &d);
    const struct vmm_part *last = NULL;
    size_t count = 0;
    if (!r || start + bytes > r->start + r->bytes)
        return 0;
    lock_take(&vmm_in(d)->parts_lock);
    vmm_own_retry(vmm_in(d), r, start, start + bytes);
    struct vmm_pages s = r->parts > 0 ? closed(r, start, bytes) : (struct vmm_pages){0, 0};
    for (addr_t at = r->start + s.first * page_bytes; at < r->start + s.end * page_bytes; at += PAGE_LEAST) {
        const struct vmm_part *p = vmm_part_at(r, at);
        if (!p || p == last || p->deferred)
            continue;
        if (count < n)
            out[count] = p->start;
        last = p;
        count++;
    }
    lock_drop(&vmm_in(d)->parts_lock);
    return count;
}

/* Where the contents go meanwhile, one handle behind the other. */
struct elsewhere {
    addr_t start;
    uint64_t bytes, mapped;
};

static bool map_elsewhere(const struct vmm *v, struct elsewhere *e, const struct own_real *list, size_t n) {
    *e = (struct elsewhere){0};
    for (size_t i = 0; i < n; i++)
        e->bytes += list[i].bytes;
    e->start = vmm_reserve(e->bytes);
    for (size_t i = 0; e->start && i < n; e->mapped += list[i++].bytes)
        if (!vmm_map(e->start + e->mapped, list[i].bytes, list[i].handle))
            return false;
    return e->start && vmm_allow(e->start, e->bytes, &v->pool[VMM_DEVICE].users);
}

static void leave_elsewhere(const struct elsewhere *e) {
    if (e->mapped)
        vmm_unmap(e->start, e->mapped);
    if (e->start)
        vmm_unreserve(e->start, e->bytes);
}

/* From the frames of its pages, which do not move. */
static bool copy_part(const struct vmm *v, const struct vmm_part *p, addr_t to, CUstream stream) {
    struct vmm_pages s = vmm_part_pages(p);
    addr_t end = p->start + p->bytes;
    for (size_t i = s.first; i < s.end; i++) {
        const struct vmm_page *page = &p->range->page[i];
        enum vmm_place place = vmm_own_content(page);
        addr_t at = p->range->start + i * page_bytes, from = at > p->start ? at : p->start;
        addr_t until = at + page_bytes < end ? at + page_bytes : end;
        if (page->frame[place] == NO_FRAME ||
            !vmm_copy(to + (from - p->start), vmm_page_alias(v, page, place) + (from - at), until - from, stream))
            return false;
    }
    return true;
}

/* Nobody can read what lies in a context that is lost to an error. */
static bool copy_all(const struct vmm *v, const struct vmm_range *r, const struct own_real *list, size_t n,
                     const struct elsewhere *e) {
    CUstream stream;
    CUresult status = REAL(cuStreamCreate, 0)(&stream, CU_STREAM_NON_BLOCKING);
    addr_t to = e->start;
    bool good = status == CUDA_SUCCESS;
    if (!good)
        return vmm_is_lost(status);
    for (size_t i = 0; good && i < n; to += list[i++].bytes)
        good = copy_part(v, vmm_part_at(r, list[i].at), to, stream);
    good = vmm_wait(stream) && good;
    REAL(cuStreamDestroy_v2, 0)(stream);
    return good;
}

/* The program's addresses are the handles'. False: nothing is mapped there. */
static bool map_shown(const struct vmm *v, const struct own_real *list, size_t n) {
    size_t done = 0;
    for (bool good = true; good && done < n; done += good) {
        const struct own_real *h = &list[done];
        bool mapped = h->shown && vmm_map(h->at, h->bytes, h->handle);
        good = !h->shown || (mapped && vmm_allow(h->at, h->bytes, &v->users));
        if (mapped && !good)
            vmm_unmap(h->at, h->bytes);
    }
    for (size_t i = 0; i < done && done < n; i++)
        if (list[i].shown)
            vmm_unmap(list[i].at, list[i].bytes);
    return done == n;
}

/* The pages are the engine's again, as they were. */
static void come_back(struct pager *d, struct vmm_range *r, struct vmm_pages s, const bool *known) {
    vmm_own_map_again(vmm_in(d), r, s.first, s.end);
    for (size_t i = s.first; i < s.end; i++)
        if (known[i - s.first])
            vmm_arrive_page(d, r, i);
}

/* They have left the engine: nothing of them moves. */
static bool take_over(struct pager *d, struct vmm_range *r, struct vmm_pages s, const struct own_real *list, size_t n,
                      const struct elsewhere *e) {
    vmm_range_map_stale(vmm_in(d), r, s.first, s.end - s.first);
    return copy_all(vmm_in(d), r, list, n, e) &&
           vmm_range_unmap(vmm_in(d), r, s.first, s.end - s.first, VMM_UNMAPPED) && map_shown(vmm_in(d), list, n);
}

static void end_parts(struct pager *d, struct vmm_range *r, const struct own_real *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct vmm_part *p = vmm_part_at(r, list[i].at);
        struct vmm_pages own = vmm_part_own_pages(p);
        pager_lock(d);
        for (size_t k = own.first; k < own.end; k++)
            pager_memory_set_aside(d, r->page[k].aside ? -(int64_t)page_bytes : 0);
        pager_budget_update(d);
        pager_unlock(d);
        vmm_part_delete(vmm_in(d), p);
    }
    for (size_t i = 0; i < n; i++) /* a page that the last part leaves is as new */
        if (list[i].shown)
            vmm_own_foreign(r, list[i].at, list[i].bytes, true);
}

/* Nothing that the program has issued uses what is shown. */
static bool are_over(const struct own_real *list, size_t n) {
    bool over = true;
    for (size_t i = 0; over && i < n; i++)
        if (list[i].shown && list[i].context && (i == 0 || list[i].context != list[i - 1].context))
            over = vmm_context_over(list[i].context, PATIENCE_NS);
    return over;
}

static bool replace_pages(struct pager *d, struct vmm_range *r, const struct own_real *list, size_t n) {
    struct vmm_pages s = closed(r, list[0].at, list[0].bytes);
    bool *known = calloc(s.end - s.first, sizeof *known);
    struct elsewhere e = {0};
    bool good = known && map_elsewhere(vmm_in(d), &e, list, n);
    for (size_t i = s.first; good && i < s.end; i++)
        if ((known[i - s.first] = r->page[i].known))
            vmm_leave_page(d, r, i);
    if (good && !(good = take_over(d, r, s, list, n, &e)))
        come_back(d, r, s, known);
    if (good)
        end_parts(d, r, list, n);
    leave_elsewhere(&e);
    free(known);
    return good;
}

bool vmm_own_replace(const struct own_real *list, size_t n) {
    struct pager *d;
    struct vmm_range *r = vmm_own_range(list[0].at, &d);
    if (!r || !are_over(list, n))
        return false;
    lock_take(&vmm_in(d)->parts_lock);
    struct pager_visit v = pager_enter(NULL);
    bool good = capture_allows(v.relaxed) && replace_pages(d, r, list, n);
    pager_leave(v);
    lock_drop(&vmm_in(d)->parts_lock);
    return good;
}
