#include "base/hash.h"

#include <stdlib.h>

#include "base/spread.h"

static size_t home(const struct hash *h, uint64_t key) {
    return (size_t)(spread(key) >> 32) & (h->capacity - 1);
}

/* The slot that holds the key, or the empty one where it would go. Pre: some slot is empty. */
static struct hash_slot *slot_find(const struct hash *h, uint64_t key) {
    size_t i = home(h, key);
    while (h->slots[i].key && h->slots[i].key != key)
        i = (i + 1) & (h->capacity - 1);
    return &h->slots[i];
}

static bool grow(struct hash *h) {
    struct hash larger = {.capacity = h->capacity ? 2 * h->capacity : 64};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < h->capacity; i++)
        if (h->slots[i].key)
            *slot_find(&larger, h->slots[i].key) = h->slots[i];
    free(h->slots);
    h->slots = larger.slots;
    h->capacity = larger.capacity;
    return true;
}

/* What replaces another needs no room. */
static bool has_room(struct hash *h, uint64_t key) {
    return 4 * (h->count + 1) <= 3 * h->capacity || (h->capacity && slot_find(h, key)->key) || grow(h);
}

void *hash_put(struct hash *h, uint64_t key, void *value, bool *stored) {
    void *old = NULL;
    lock_take(&h->lock);
    bool room = has_room(h, key);
    if (room) {
        struct hash_slot *slot = slot_find(h, key);
        old = slot->value;
        h->count += slot->key == 0;
        *slot = (struct hash_slot){key, value};
    }
    lock_drop(&h->lock);
    if (stored)
        *stored = room;
    return old;
}

void *hash_get(struct hash *h, uint64_t key) {
    lock_take(&h->lock);
    void *value = h->capacity ? slot_find(h, key)->value : NULL;
    lock_drop(&h->lock);
    return value;
}

/* Slots behind the hole move up to it when their way from home leads past it: no search ever stops short. */
static void close_gap(struct hash *h, size_t hole) {
    size_t mask = h->capacity - 1;
    for (size_t i = (hole + 1) & mask; h->slots[i].key; i = (i + 1) & mask) {
        size_t from_home = (i - home(h, h->slots[i].key)) & mask;
        if (from_home >= ((i - hole) & mask)) {
            h->slots[hole] = h->slots[i];
            hole = i;
        }
    }
    h->slots[hole] = (struct hash_slot){0};
}

/* The value of a slot, which is empty then. */
static void *empty(struct hash *h, struct hash_slot *slot) {
    void *value = slot->value;
    close_gap(h, (size_t)(slot - h->slots));
    h->count--;
    return value;
}

void *hash_take(struct hash *h, uint64_t key) {
    lock_take(&h->lock);
    struct hash_slot *slot = h->capacity ? slot_find(h, key) : NULL;
    void *value = slot && slot->key ? empty(h, slot) : NULL;
    lock_drop(&h->lock);
    return value;
}

void *hash_take_any(struct hash *h, bool (*wanted)(const void *value, const void *data), const void *data) {
    void *value = NULL;
    lock_take(&h->lock);
    for (size_t i = 0; i < h->capacity && !value; i++)
        if (h->slots[i].key && wanted(h->slots[i].value, data))
            value = empty(h, &h->slots[i]);
    lock_drop(&h->lock);
    return value;
}

void hash_delete(struct hash *h) {
    free(h->slots);
    h->slots = NULL;
    h->capacity = h->count = 0;
}
