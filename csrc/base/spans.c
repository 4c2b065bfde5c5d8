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
