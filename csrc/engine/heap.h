/* A binary heap of fixed room: the smallest key comes first, of equal keys the smallest item. */
#ifndef ULMS_ENGINE_HEAP_H
#define ULMS_ENGINE_HEAP_H

#include "types.h"

struct heap_entry {
    uint64_t key;
    uint32_t item;
};

struct heap {
    struct heap_entry *entries;
    size_t count;
};

/* Room for that many entries. False: no memory; may be closed all the same. */
bool heap_open(struct heap *h, size_t capacity);
void heap_close(struct heap *h);
/* Pre: there is room. */
void heap_push(struct heap *h, uint64_t key, uint32_t item);
/* Pre: not empty. */
struct heap_entry heap_pop(struct heap *h);

#endif
