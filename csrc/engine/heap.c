#include "engine/heap.h"

#include <stdlib.h>

bool heap_open(struct heap *h, size_t capacity) {
    h->count = 0;
    h->entries = calloc(capacity + 1, sizeof *h->entries);
    return h->entries != NULL;
}

void heap_close(struct heap *h) {
    free(h->entries);
    h->entries = NULL;
}

static bool before(struct heap_entry a, struct heap_entry b) {
    return a.key != b.key ? a.key < b.key : a.item < b.item;
}

void heap_push(struct heap *h, uint64_t key, uint32_t item) {
    struct heap_entry one = {key, item};
    size_t at = h->count++;
    for (size_t up; at && before(one, h->entries[up = (at - 1) / 2]); at = up)
        h->entries[at] = h->entries[up];
    h->entries[at] = one;
}

struct heap_entry heap_pop(struct heap *h) {
    struct heap_entry *entries = h->entries, first = entries[0], last = entries[--h->count];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < h->count; at = down) {
        if (down + 1 < h->count && before(entries[down + 1], entries[down]))
            down++;
        if (!before(entries[down], last))
            break;
        entries[at] = entries[down];
    }
    entries[at] = last;
    return first;
}
