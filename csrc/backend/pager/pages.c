/* What the engine does not know of pages. Under the device's lock. */
#include <stdlib.h>

#include "backend/pager/pages.h"
#include "base/page.h"
#include "ulms.h"

struct pager_range *pager_range_add(struct spans *r, addr_t start, uint64_t bytes) {
    struct pager_range *range = calloc(1, sizeof *range + bytes / page_bytes * sizeof range->page[0]);
    if (!range)
        return NULL;
    range->start = start;
    range->bytes = bytes;
    if (spans_insert(r, range->start, range->start + range->bytes, range))
        return range;
    free(range);
    return NULL;
}

struct pager_range *pager_range_at(const struct spans *r, addr_t start) {
    struct pager_range *range = spans_find(r, start);
    return range && range->start == start ? range : NULL;
}

struct pager_range *pager_range_take(struct spans *r, addr_t start) {
    return pager_range_at(r, start) ? spans_take(r, spans_behind(r, start)) : NULL;
}

void pager_range_remember_advice(struct spans *still_advised, struct pager_range *range) {
    bool advised = false;
    for (size_t i = 0; i < range->bytes / page_bytes; i++)
        advised = advised || range->page[i].advice == ULMS_ADVICE_KEPT || range->page[i].in_place;
    if (!advised || !spans_insert(still_advised, range->start, range->start + range->bytes, range))
        free(range);
}

void pager_range_inherit_advice(struct spans *still_advised, struct pager_range *range) {
    addr_t end = range->start + range->bytes;
    for (size_t i;
         (i = spans_behind(still_advised, range->start)) < still_advised->count && still_advised->at[i].start < end;) {
        struct pager_range *before = spans_take(still_advised, i);
        bool same = before->start == range->start && before->bytes == range->bytes;
        for (size_t n = 0; same && n < range->bytes / page_bytes; n++) {
            range->page[n].advice = before->page[n].advice & ULMS_ADVICE_KEPT;
            range->page[n].in_place = before->page[n].in_place;
        }
        free(before);
    }
}

void pager_pages_visit(struct spans *r, addr_t start, addr_t end, void (*visit)(struct pager_page *, addr_t, void *),
                       void *data) {
    for (size_t i = spans_behind(r, start); i < r->count && r->at[i].start < end; i++) {
        const struct spans_row *s = &r->at[i];
        struct pager_range *range = s->what;
        addr_t last = s->end < end ? s->end : end;
        addr_t from = start > s->start ? start : s->start;
        for (uint64_t n = (from - s->start) / page_bytes; s->start + n * page_bytes < last; n++)
            visit(&range->page[n], s->start + n * page_bytes, data);
    }
}

int pager_ranges_split(const struct spans *r, addr_t start, addr_t end, struct pager_piece *piece, int n) {
    int found = 0;
    for (size_t i = spans_behind(r, start); i < r->count && r->at[i].start < end && found < n; i++) {
        const struct spans_row *s = &r->at[i];
        addr_t from = start > s->start ? start : s->start;
        addr_t to = end < s->end ? end : s->end;
        piece[found++] = (struct pager_piece){from, to - from};
    }
    return found;
}

struct pager_page *pager_page_at(const struct spans *r, addr_t p) {
    struct pager_range *range = spans_find(r, p);
    return range ? &range->page[(p - range->start) / page_bytes] : NULL;
}

static void set_died(struct pager_page *p, addr_t at, void *data) {
    (void)at;
    p->died = *(uint64_t *)data;
}

void pager_pages_died(struct spans *r, addr_t start, addr_t end, uint64_t died) {
    pager_pages_visit(r, start, end, set_died, &died);
}

static void set_used(struct pager_page *p, addr_t at, void *data) {
    (void)at;
    (void)data;
    p->died = 0;
    p->lingers = false;
}

void pager_pages_used(struct spans *r, addr_t start, addr_t end) {
    pager_pages_visit(r, start, end, set_used, NULL);
}

uint64_t pager_pages_lingering(const struct spans *r) {
    uint64_t pages = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct pager_range *range = r->at[i].what;
        for (uint64_t n = 0; n < range->bytes / page_bytes; n++)
            pages += range->page[n].lingers;
    }
    return pages * page_bytes;
}
