/* An allocation that other processes map. Its pages stay from then on, each on a frame of pieces (piece.c), which
 * gets what allocations have on the page, and nothing of what lay there before them.
 *
 * Pages are mapped anew here that operations may use, without the engine: so it is done while none runs, when another
 * process asks for the memory first. */
#include "backend/backend.h"
#include "backend/vmm/memory.h"
#include "base/log.h"
#include "driver/context.h"
#include "driver/session.h"

/* How long operations are kept back, each time twice as long, until the device has come to rest. */
#define FIRST_FREEZE_NS ((uint64_t)16 << 20)
enum { FREEZES = 8 };

/* --- one page --- */

struct page {
    struct vmm *v;
    struct vmm_range *range;
    size_t at;
    CUstream stream;
};

static struct vmm_page *page_of(const struct page *p) {
    return &p->range->page[p->at];
}

static addr_t address(const struct page *p) {
    return p->range->start + p->at * page_bytes;
}

/* The next allocation on the page from `grain` on; NULL: no more. Moves *grain behind it. */
static const struct vmm_part *next_part(const struct page *p, size_t *grain) {
    size_t in_page = page_bytes / PAGE_LEAST;
    const struct vmm_part *part = NULL, *const *parts = (const struct vmm_part *const *)p->range->part;
    for (; *grain < in_page && !part; ++*grain)
        part = parts[p->at * in_page + *grain];
    while (part && *grain < in_page && parts[p->at * in_page + *grain] == part)
        ++*grain;
    return part;
}

static size_t count_parts(const struct page *p) {
    size_t n = 0;
    for (size_t grain = 0; next_part(p, &grain);)
        n++;
    return n;
}

/* Behind the end of what the program asked for lies what was there before. */
static addr_t end_of(const struct vmm_part *part) {
    struct allocation a;
    bool known = ledger_find(session.ledger, part->start, &a) && a.start == part->start;
    return part->start + (known && a.bytes < part->bytes ? a.bytes : part->bytes);
}

static bool copy(const struct page *p, addr_t to, addr_t from) {
    bool good = true;
    const struct vmm_part *part;
    for (size_t grain = 0; (part = next_part(p, &grain)) && good;) {
        addr_t start = address(p), end = start + page_bytes, part_end = end_of(part);
        addr_t first = part->start > start ? part->start : start, last = part_end < end ? part_end : end;
        if (first < last)
            good = vmm_copy(to + (first - start), from + (first - start), last - first, p->stream);
    }
    return vmm_wait(p->stream) && good;
}

/* What all frames of the device may take. */
static uint64_t most_of(struct pager *d) {
    pager_lock(d);
    uint64_t most = vmm_frames_allowed(d);
    pager_unlock(d);
    return most;
}

/* A fresh frame takes no more than there may be, as far as idle ones can make up for it. */
static bool make_room(struct pager *d) {
    uint64_t most = most_of(d);
    vmm_give_back(d, most > page_bytes ? most - page_bytes : 0);
    return frames_bytes(&vmm_in(d)->pool[VMM_DEVICE].frames) + page_bytes <= most;
}

static void came_to_device(struct pager *d) {
    pager_lock(d);
    pager_memory_fix(d, (int64_t)page_bytes);
    pager_budget_update(d);
    pager_unlock(d);
}

/* Nothing is mapped at the page, and it has its old frame besides. */
static bool map_fresh(const struct page *p, uint32_t fresh, enum vmm_place to, enum vmm_place from) {
    struct vmm_page *page = page_of(p);
    if (!vmm_frame_map_pieces(&p->v->pool[to], fresh, address(p), &p->v->users)) {
        vmm_range_map(p->v, p->range, p->at, 1, from);
        return false;
    }
    vmm_page_drop(p->v, page, VMM_DEVICE);
    vmm_page_drop(p->v, page, VMM_HOST);
    page->frame[to] = fresh;
    page->filled = false;
    page->exported = true;
    vmm_page_lies(page, (uint8_t)to);
    return true;
}

/* False: the page is what it was. */
static bool move_to(const struct page *p, enum vmm_place to) {
    struct vmm_page *page = page_of(p);
    enum vmm_place from = page->at == VMM_DEVICE ? VMM_DEVICE : VMM_HOST;
    size_t pieces = count_parts(p) > 1 ? page_bytes / PAGE_LEAST : 1;
    uint32_t fresh = vmm_frame_make_pieces(&p->v->pool[to], pieces);
    if (fresh == NO_FRAME)
        return false;
    if (copy(p, vmm_alias(&p->v->pool[to], fresh), vmm_page_alias(p->v, page, from)) &&
        vmm_range_unmap(p->v, p->range, p->at, 1, VMM_UNMAPPED) && map_fresh(p, fresh, to, from))
        return true;
    ulms_frames_give(&p->v->pool[to].frames, &fresh, 1);
    return false;
}

/* What lies on the host is brought, if there is room. */
static bool export_page(struct pager *d, const struct page *p) {
    uint8_t at = page_of(p)->at;
    if (page_of(p)->exported)
        return true;
    if (!page_of(p)->fixed || (at != VMM_DEVICE && at != VMM_HOST))
        return false;
    bool room = make_room(d);
    if (at == VMM_HOST && room && move_to(p, VMM_DEVICE)) {
        came_to_device(d);
        return true;
    }
    return move_to(p, at == VMM_DEVICE ? VMM_DEVICE : VMM_HOST);
}

/* --- one allocation. Under `parts_lock` --- */

static bool is_exported(const struct vmm_part *p) {
    struct vmm_pages s = vmm_part_pages(p);
    while (s.first < s.end && p->range->page[s.first].exported)
        s.first++;
    return s.first == s.end;
}

/* Nothing runs. */
static bool export_part(struct pager *d, const struct vmm_part *p) {
    struct vmm_pages s = vmm_part_pages(p);
    struct page page = {.v = vmm_in(d), .range = p->range, .at = s.first, .stream = pager_stream_new()};
    bool good = page.stream != NULL;
    good = good && vmm_fix(d, p->start, p->start + p->bytes, true);
    for (; good && page.at < s.end; page.at++)
        good = export_page(d, &page);
    vmm_give_back(d, most_of(d));
    if (page.stream)
        REAL(cuStreamDestroy_v2, 0)(page.stream);
    return good;
}

/* The part that starts there and is not freed, locked; NULL: there is none. */
static struct vmm_part *lock_part(addr_t start, struct pager **d) {
    if (!vmm_find(start, d))
        return NULL;
    lock_take(&vmm_in(*d)->parts_lock);
    const struct vmm_range *r = vmm_range_find(vmm_in(*d), start); /* it may have gone meanwhile */
    struct vmm_part *p = r ? vmm_part_at(r, start) : NULL;
    if (p && p->start == start && !p->deferred)
        return p;
    lock_drop(&vmm_in(*d)->parts_lock);
    return NULL;
}

static void unlock_part(struct pager *d) {
    lock_drop(&vmm_in(d)->parts_lock);
}

/* Nothing runs. The context of the memory is current meanwhile. */
static bool export_now(addr_t start) {
    struct pager *d;
    struct allocation a;
    struct context_visit visit;
    if (!ledger_find(session.ledger, start, &a) ||
        context_visit(&visit, (CUcontext)(uintptr_t)a.context) != CUDA_SUCCESS)
        return false;
    struct vmm_part *p = lock_part(start, &d);
    bool good = p && export_part(d, p);
    if (p)
        unlock_part(d);
    context_visited(&visit);
    return good;
}

static bool freeze(const bool *given_up) {
    bool frozen = false;
    for (int i = 0; i < FREEZES && !frozen; i++)
        frozen = pager_freeze(FIRST_FREEZE_NS << i, given_up);
    return frozen;
}

static bool make_exported(addr_t start, const bool *given_up) {
    struct pager *d;
    struct vmm_part *p = lock_part(start, &d);
    if (!p)
        return false;
    bool is = is_exported(p);
    unlock_part(d);
    if (is)
        return true;
    if (!freeze(given_up)) {
        log_warn("device %d: memory cannot be shared with another process, as the program's work does not end",
                 d->ordinal);
        return false;
    }
    bool good = export_now(start);
    pager_thaw();
    return good;
}

/* --- its pieces --- */

/* Those of the page that hold some of the part. */
static bool add_pieces(struct backend_share *share, size_t first, const struct vmm_part *part, const struct page *p) {
    const struct vmm_page *page = page_of(p);
    enum vmm_place place = page->at == VMM_DEVICE ? VMM_DEVICE : VMM_HOST;
    const struct vmm_pieces *s = p->v->pool[place].pieces[page->frame[place]];
    for (size_t i = 0; i < s->count; i++) {
        addr_t start = address(p) + i * s->bytes;
        if (start + s->bytes <= part->start || start >= part->start + part->bytes)
            continue;
        if (share->all == 0)
            share->lead = part->start - (start < part->start ? start : part->start);
        share->bytes += s->bytes;
        size_t number = share->all++;
        if (number < first || share->count == BACKEND_PIECES)
            continue;
        int file = vmm_export_file(s->handle[i]);
        if (file < 0)
            return false;
        share->piece[share->count].file = file;
        share->piece[share->count++].bytes = s->bytes;
    }
    return true;
}

bool vmm_share(addr_t start, size_t first, struct backend_share *share) {
    struct pager *d;
    *share = (struct backend_share){.given_up = share->given_up};
    struct vmm_part *part = make_exported(start, share->given_up) ? lock_part(start, &d) : NULL;
    if (!part)
        return false;
    struct vmm_pages s = vmm_part_pages(part);
    struct page page = {.v = vmm_in(d), .range = part->range};
    bool good = is_exported(part);
    for (page.at = s.first; good && page.at < s.end; page.at++)
        good = add_pieces(share, first, part, &page);
    unlock_part(d);
    return good;
}
