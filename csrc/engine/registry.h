/* Things found by their number, which is never 0 and never used twice: operations by serial, moves by id. The link lies
 * in the thing, so that entering one cannot fail. */
#ifndef ULMS_ENGINE_REGISTRY_H
#define ULMS_ENGINE_REGISTRY_H

#include "types.h"

struct registered {
    uint64_t id;
    struct registered *next;
};

struct registry {
    struct registered **slots;
    size_t capacity; /* power of two */
    size_t count;
};

/* False: no memory. */
bool registry_open(struct registry *r);
void registry_grow(struct registry *r);
struct registered *registry_find(const struct registry *r, uint64_t id);
struct registered *registry_take(struct registry *r, uint64_t id);
/* Takes any one out; NULL: empty. */
struct registered *registry_pop(struct registry *r);

static inline struct registered **registry_slot(const struct registry *r, uint64_t id) {
    return &r->slots[id & (r->capacity - 1)]; /* numbers come in a row */
}

static inline void registry_enter(struct registry *r, struct registered *one) {
    if (r->count >= r->capacity)
        registry_grow(r);
    struct registered **slot = registry_slot(r, one->id);
    one->next = *slot;
    *slot = one;
    r->count++;
}

#endif
