/* Parts: several allocations share a range, and the pages at which they meet. A framework's segments are of any number
 * of grains: if each began at a page of its own, half of the last one would be lost. What is of whole pages shares
 * none: weights would move with what is written beside them. Nor does what has an end that nobody uses, which would
 * come along with its neighbour's beginning, as long as the padding that this takes is little beside whole pages. */
#include <stdlib.h>

#include "backend/vmm/vmm.h"

/* Addresses cost nothing; at each end of a range a page may be left that is used in part only. */
enum { RANGE_PAGES = 8192 };

/* Of the bytes of whole pages one in so many may be padding of others that share none. */
enum { WHOLE_TO_PADDING = 64 };

static size_t grain_of(const struct vmm_range *r, addr_t p) {
    return (p - r->start) / PAGE_LEAST;
}

/* Memory that has left the engine, or not come to it yet, has its pages for itself: nothing knows who still uses them.
 * So has what other processes may have mapped. */
static bool is_open(const struct vmm_page *p) {
    return p->parts == 0 || (p->known && !p->exported);
}

/* The first of n grains that are free. False: there are not so many in a row. */
static bool find_room(const struct vmm_range *r, size_t n, size_t *grain) {
    size_t grains = r->bytes / PAGE_LEAST, in_page = page_bytes / PAGE_LEAST;
    for (size_t i = 0, free_grains = 0; i < grains; i++) {
        const struct vmm_page *p = &r->page[i / in_page];
        bool is_free = r->alone ? p->parts == 0 : !r->part[i] && is_open(p);
        free_grains = is_free ? free_grains + 1 : 0;
        if (free_grains == n) {
            *grain = i + 1 - n;
            return true;
        }
    }
    return false;
}

/* What of its pages is unused if it shares none. */
static uint64_t padding_of(uint64_t bytes) {
    return whole_pages(bytes) - bytes;
}

/* Whether it shares no page. */
static bool is_alone(const struct vmm *v, uint64_t bytes, bool apart) {
    uint64_t padding = padding_of(bytes);
    return padding == 0 || (apart && v->padding_bytes + padding <= v->whole_bytes / WHOLE_TO_PADDING);
}

/* Ranges come and go under `parts_lock` alone. */
static struct vmm_range *range_for(struct vmm *v, uint64_t bytes, bool apart, size_t *grain) {
    uint64_t most = RANGE_PAGES * page_bytes;
    bool alone = is_alone(v, bytes, apart);
    size_t grains = (alone ? whole_pages(bytes) : bytes) / PAGE_LEAST;
    struct vmm_range *r;
    for (size_t i = 0; i < v->ranges.count; i++)
        if (!(r = v->ranges.at[i].what)->reserved && r->alone == alone && find_room(r, grains, grain))
            return r;
    *grain = 0;
    r = bytes < most ? vmm_range_new(v, most) : NULL;
    if (!r)
        r = vmm_range_new(v, whole_pages(bytes));
    if (r)
        r->alone = alone;
    return r;
}

struct vmm_pages vmm_part_pages(const struct vmm_part *p) {
    uint64_t from = p->start - p->range->start;
    return (struct vmm_pages){from / page_bytes, whole_pages(from + p->bytes) / page_bytes};
}

/* Only its first and its last page can be another's, too. */
struct vmm_pages vmm_part_own_pages(const struct vmm_part *p) {
    struct vmm_pages s = vmm_part_pages(p);
    s.first += p->range->page[s.first].parts > 1;
    s.end -= s.end > s.first && p->range->page[s.end - 1].parts > 1;
    return s;
}

static void set_grains(struct vmm_part *p, struct vmm_part *as) {
    size_t first = grain_of(p->range, p->start);
    for (size_t i = 0; i < p->bytes / PAGE_LEAST; i++)
        p->range->part[first + i] = as;
}

static void count(struct vmm *v, const struct vmm_part *p, bool comes) {
    uint64_t padding = padding_of(p->bytes), bytes = padding > 0 ? padding : p->bytes;
    uint64_t *sum = padding > 0 ? &v->padding_bytes : &v->whole_bytes;
    if (!p->range->reserved && (padding == 0 || p->range->alone))
        __atomic_store_n(sum, comes ? *sum + bytes : *sum - bytes, __ATOMIC_RELAXED);
}

/* Its range and its place in it are known. */
static void part_enter(struct vmm *v, struct vmm_part *p) {
    p->number = ++v->parts_made;
    set_grains(p, p);
    count(v, p, true);
    p->range->parts++;
    struct vmm_pages all = vmm_part_pages(p);
    for (size_t i = all.first; i < all.end; i++)
        p->range->page[i].parts++;
}

struct vmm_part *vmm_part_new(struct vmm *v, uint64_t bytes, bool apart, uint64_t *fresh) {
    size_t grain;
    struct vmm_part *p = calloc(1, sizeof *p);
    if (!p || !(p->range = range_for(v, bytes, apart, &grain))) {
        free(p);
        return NULL;
    }
    p->start = p->range->start + grain * PAGE_LEAST;
    p->bytes = bytes;
    part_enter(v, p);
    struct vmm_pages own = vmm_part_own_pages(p);
    *fresh = (own.end - own.first) * page_bytes;
    return p;
}

static bool is_free(const struct vmm_part *p) {
    struct vmm_pages s = vmm_part_pages(p);
    size_t grain = grain_of(p->range, p->start), n = p->bytes / PAGE_LEAST;
    bool all = true;
    for (size_t i = s.first; all && i < s.end; i++)
        all = is_open(&p->range->page[i]) && p->range->page[i].foreign == 0;
    for (size_t i = grain; all && i < grain + n; i++)
        all = !p->range->part[i];
    return all;
}

struct vmm_part *vmm_part_new_at(struct vmm *v, struct vmm_range *r, addr_t start, uint64_t bytes) {
    struct vmm_part *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct vmm_part){.start = start, .bytes = bytes, .range = r};
    if (!is_free(p)) {
        free(p);
        return NULL;
    }
    part_enter(v, p);
    return p;
}

bool vmm_part_fill(struct vmm *v, struct vmm_part *p, bool device, size_t spare) {
    struct vmm_pages own = vmm_part_own_pages(p);
    return own.first == own.end || vmm_range_fill(v, p->range, own.first, own.end - own.first, device, spare);
}

bool vmm_part_fill_from(struct vmm *v, struct vmm_part *p, struct vmm_stock *s) {
    struct vmm_pages own = vmm_part_own_pages(p);
    return own.first == own.end || vmm_range_fill_from(v, p->range, own.first, own.end - own.first, s);
}

/* What could not be emptied stays its own for good. */
void vmm_part_delete(struct vmm *v, struct vmm_part *p) {
    struct vmm_range *r = p->range;
    struct vmm_pages own = vmm_part_own_pages(p), all = vmm_part_pages(p);
    p->deferred = true;
    if (own.first < own.end && !vmm_range_empty(v, r, own.first, own.end - own.first))
        return;
    for (size_t i = all.first; i < all.end; i++)
        r->page[i].parts -= i < own.first || i >= own.end;
    set_grains(p, NULL);
    count(v, p, false);
    if (--r->parts == 0 && !r->reserved)
        vmm_range_delete(v, r);
    free(p);
}

const struct vmm_part *vmm_part_alike(const struct vmm *v, uint64_t bytes) {
    const struct vmm_part *newest = NULL;
    for (size_t i = 0; i < v->ranges.count; i++) {
        const struct vmm_range *r = v->ranges.at[i].what;
        for (size_t grain = 0, seen = 0; !r->reserved && seen < r->parts;) {
            const struct vmm_part *p = r->part[grain];
            if (p && p->bytes == bytes && !p->deferred && (!newest || p->number > newest->number))
                newest = p;
            seen += p != NULL;
            grain += p ? p->bytes / PAGE_LEAST : 1;
        }
    }
    return newest;
}

struct vmm_part *vmm_part_at(const struct vmm_range *r, addr_t p) {
    return r->part[grain_of(r, p)];
}
