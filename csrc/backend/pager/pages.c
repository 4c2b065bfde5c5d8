/* What the engine does not know of pages. Under the device's lock. */
#include <stdlib.h>
#include <string.h>

#include "backend/pager/pages.h"
#include "base/page.h"
#include "ulms.h"

/* Index of the first range that ends behind p. */
static size_t first_behind(const struct pager_ranges *r, addr_t p) {
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->at[middle].end > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* False: no memory, or another one is there. */
static bool insert(struct pager_ranges *r, struct pager_range *range) {
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        struct pager_span *at = realloc(r->at, capacity * sizeof *at);
        if (!at)
            return false;
        r->at = at;
        r->capacity = capacity;
    }
    size_t i = first_behind(r, range->start);
    addr_t end = range->start + range->bytes;
    if (i < r->count && end > r->at[i].start)
        return false;
    memmove(&r->at[i + 1], &r->at[i], (r->count - i) * sizeof r->at[0]);
    r->at[i] = (struct pager_span){range->start, end, range};
    r->count++;
    return true;
}

static struct pager_range *take(struct pager_ranges *r, size_t i) {
    struct pager_range *range = r->at[i].range;
    r->count--;
    memmove(&r->at[i], &r->at[i + 1], (r->count - i) * sizeof r->at[0]);
    return range;
}

struct pager_range *pager_range_add(struct pager_ranges *r, addr_t start, uint64_t bytes) {
    struct pager_range *range = calloc(1, sizeof *range + bytes / page_bytes * sizeof range->page[0]);
    if (!range)
        return NULL;
    range->start = start;
    range->bytes = bytes;
    if (insert(r, range))
        return range;
    free(range);
    return NULL;
}

struct pager_range *pager_range_at(const struct pager_ranges *r, addr_t start) {
    size_t i = first_behind(r, start);
    return i < r->count && r->at[i].start == start ? r->at[i].range : NULL;
}

struct pager_range *pager_range_take(struct pager_ranges *r, addr_t start) {
    return pager_range_at(r, start) ? take(r, first_behind(r, start)) : NULL;
}

void pager_range_remember_advice(struct pager_ranges *still_advised, struct pager_range *range) {
    bool advised = false;
    for (size_t i = 0; i < range->bytes / page_bytes; i++)
        advised = advised || range->page[i].advice == ULMS_ADVICE_KEPT || range->page[i].in_place;
    if (!advised || !insert(still_advised, range))
        free(range);
}

void pager_range_inherit_advice(struct pager_ranges *still_advised, struct pager_range *range) {
    addr_t end = range->start + range->bytes;
    for (size_t i;
         (i = first_behind(still_advised, range->start)) < still_advised->count && still_advised->at[i].start < end;) {
        struct pager_range *before = take(still_advised, i);
        bool same = before->start == range->start && before->bytes == range->bytes;
        for (size_t n = 0; same && n < range->bytes / page_bytes; n++) {
            range->page[n].advice = before->page[n].advice & ULMS_ADVICE_KEPT;
            range->page[n].in_place = before->page[n].in_place;
        }
        free(before);
    }
}

void pager_pages_visit(struct pager_ranges *r, addr_t start, addr_t end,
                       void (*visit)(struct pager_page *, addr_t, void *), void *data) {
    for (size_t i = first_behind(r, start); i < r->count && r->at[i].start < end; i++) {
        const struct pager_span *s = &r->at[i];
        addr_t last = s->end < end ? s->end : end;
        addr_t from = start > s->start ? start : s->start;
        for (uint64_t n = (from - s->start) / page_bytes; s->start + n * page_bytes < last; n++)
            visit(&s->range->page[n], s->start + n * page_bytes, data);
    }
}

int pager_ranges_split(const struct pager_ranges *r, addr_t start, addr_t end, struct pager_piece *piece, int n) {
    int found = 0;
    for (size_t i = first_behind(r, start); i < r->count && r->at[i].start < end && found < n; i++) {
        const struct pager_span *s = &r->at[i];
        addr_t from = start > s->start ? start : s->start;
        addr_t to = end < s->end ? end : s->end;
        piece[found++] = (struct pager_piece){from, to - from};
    }
    return found;
}

struct pager_page *pager_page_at(const struct pager_ranges *r, addr_t p) {
    size_t i = first_behind(r, p);
    if (i == r->count || p < r->at[i].start)
        return NULL;
    return &r->at[i].range->page[(p - r->at[i].start) / page_bytes];
}

static void set_died(struct pager_page *p, addr_t at, void *data) {
    (void)at;
    p->died = *(uint64_t *)data;
}

void pager_pages_died(struct pager_ranges *r, addr_t start, addr_t end, uint64_t died) {
    pager_pages_visit(r, start, end, set_died, &died);
}

static void set_used(struct pager_page *p, addr_t at, void *data) {
    (void)at;
    (void)data;
    p->died = 0;
    p->lingers = false;
}

void pager_pages_used(struct pager_ranges *r, addr_t start, addr_t end) {
    pager_pages_visit(r, start, end, set_used, NULL);
}

uint64_t pager_pages_lingering(const struct pager_ranges *r) {
    uint64_t pages = 0;
    for (size_t i = 0; i < r->count; i++)
        for (uint64_t n = 0; n < r->at[i].range->bytes / page_bytes; n++)
            pages += r->at[i].range->page[n].lingers;
    return pages * page_bytes;
}
