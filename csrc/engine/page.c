#include "engine/page.h"

#include <stdlib.h>

#include "base/spread.h"

static size_t slot_of(const struct page_table *t, uint64_t number) {
    return (spread(number) >> 20) & (t->capacity - 1);
}

struct leaf *page_leaf(struct page_table *t, uint64_t number) {
    if (t->capacity == 0)
        return NULL;
    for (size_t i = slot_of(t, number); t->slots[i]; i = (i + 1) & (t->capacity - 1))
        if (t->slots[i]->number == number)
            return t->last = t->slots[i];
    return NULL;
}

static void leaf_enter(struct page_table *t, struct leaf *leaf) {
    size_t i = slot_of(t, leaf->number);
    while (t->slots[i])
        i = (i + 1) & (t->capacity - 1);
    t->slots[i] = leaf;
}

static bool table_grow(struct page_table *t) {
    struct page_table larger = *t;
    larger.capacity = t->capacity ? 2 * t->capacity : 64;
    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i])
            leaf_enter(&larger, t->slots[i]);
    free(t->slots);
    *t = larger;
    return true;
}

static bool leaf_make(struct page_table *t, uint64_t number) {
    if (page_leaf(t, number))
        return true;
    if (2 * (t->count + 1) > t->capacity && !table_grow(t))
        return false;
    struct leaf *leaf = calloc(1, sizeof(*leaf));
    if (!leaf)
        return false;
    leaf->number = number;
    for (unsigned i = 0; i < LEAF_PAGES; i++)
        leaf->page[i].number = (number << LEAF_BITS) + i;
    leaf_enter(t, leaf);
    t->count++;
    return true;
}

bool page_make(struct page_table *t, uint64_t first, uint64_t count) {
    uint64_t last = first + count - 1;
    for (uint64_t n = first >> LEAF_BITS; n <= last >> LEAF_BITS; n++)
        if (!leaf_make(t, n))
            return false;
    bool none = t->low >= t->high;
    if (none || first < t->low)
        t->low = first;
    if (none || last >= t->high)
        t->high = last + 1;
    return true;
}

struct page *page_walk_far(struct page_table *t, uint64_t *number, uint64_t last) {
    if (t->low >= t->high)
        return NULL;
    uint64_t n = *number > t->low ? *number : t->low;
    if (last >= t->high)
        last = t->high - 1;
    while (n <= last) {
        struct page *p = page_find(t, n);
        if (p && p->allocated) {
            *number = n + 1;
            return p;
        }
        n = p ? n + 1 : ((n >> LEAF_BITS) + 1) << LEAF_BITS;
    }
    return NULL;
}

void page_table_free(struct page_table *t) {
    for (size_t i = 0; i < t->capacity; i++)
        free(t->slots[i]);
    free(t->slots);
}
