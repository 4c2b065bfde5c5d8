#include "engine/registry.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

bool registry_open(struct registry *r) {
    *r = (struct registry){.slots = calloc(FIRST_CAPACITY, sizeof(*r->slots)), .capacity = FIRST_CAPACITY};
    return r->slots != NULL;
}

/* Without memory the chains become longer, and that is all. */
void registry_grow(struct registry *r) {
    struct registry larger = {.capacity = 2 * r->capacity, .count = r->count};
    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (!larger.slots)
        return;
    for (size_t i = 0; i < r->capacity; i++)
        for (struct registered *one = r->slots[i], *next; one; one = next) {
            next = one->next;
            one->next = *registry_slot(&larger, one->id);
            *registry_slot(&larger, one->id) = one;
        }
    free(r->slots);
    *r = larger;
}

struct registered *registry_find(const struct registry *r, uint64_t id) {
    struct registered *one = *registry_slot(r, id);
    while (one && one->id != id)
        one = one->next;
    return one;
}

struct registered *registry_take(struct registry *r, uint64_t id) {
    struct registered **at = registry_slot(r, id);
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct registered *one = *at;
    if (one) {
        *at = one->next;
        r->count--;
    }
    return one;
}

struct registered *registry_pop(struct registry *r) {
    for (size_t i = 0; r->count > 0 && i < r->capacity; i++)
        if (r->slots[i])
            return registry_take(r, r->slots[i]->id);
    return NULL;
}
