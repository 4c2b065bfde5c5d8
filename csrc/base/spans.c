#include "base/spans.h"

#include <stdlib.h>
#include <string.h>

size_t spans_behind(const struct spans *r, addr_t p) {
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

void *spans_find(const struct spans *r, addr_t p) {
    size_t i = spans_behind(r, p);
    return i < r->count && r->at[i].start <= p ? r->at[i].what : NULL;
}

bool spans_insert(struct spans *r, addr_t start, addr_t end, void *what) {
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        struct spans_row *at = realloc(r->at, capacity * sizeof *at);
        if (!at)
            return false;
        r->at = at;
        r->capacity = capacity;
    }
    size_t i = spans_behind(r, start);
    if (i < r->count && end > r->at[i].start)
        return false;
    memmove(&r->at[i + 1], &r->at[i], (r->count - i) * sizeof r->at[0]);
    r->at[i] = (struct spans_row){start, end, what};
    r->count++;
    return true;
}

void *spans_take(struct spans *r, size_t i) {
    void *what = r->at[i].what;
    r->count--;
    memmove(&r->at[i], &r->at[i + 1], (r->count - i) * sizeof r->at[0]);
    return what;
}

uint64_t spans_cover(struct spans *r, addr_t start, addr_t end) {
    uint64_t more = end - start;
    addr_t from = start, to = end;
    size_t i;
    while ((i = spans_behind(r, from ? from - 1 : from)) < r->count && r->at[i].start <= to) {
        struct spans_row *row = &r->at[i];
        addr_t low = row->start > start ? row->start : start, high = row->end < end ? row->end : end;
        more -= high > low ? high - low : 0;
        from = row->start < from ? row->start : from;
        to = row->end > to ? row->end : to;
        spans_take(r, i);
    }
    spans_insert(r, from, to, NULL);
    return more;
}
