/* A map from a nonzero 64-bit key to a pointer: open addressing, no tombstones. Not for hot paths: one lock per map.
 * Values belong to the caller. Zero-initialised maps are empty. */
#ifndef ULMS_HASH_H
#define ULMS_HASH_H

#include "base/lock.h"
#include "types.h"

struct hash_slot {
    uint64_t key;
    void *value;
};

struct hash {
    struct lock lock;
    struct hash_slot *slots;
    size_t capacity; /* power of two, or 0 */
    size_t count;
};

/* Sets key to value; returns the value it had, or NULL. *stored (if not NULL) is false when there was no memory. */
void *hash_put(struct hash *h, uint64_t key, void *value, bool *stored);
void *hash_get(struct hash *h, uint64_t key);
/* Takes the key out; returns its value, or NULL. */
void *hash_take(struct hash *h, uint64_t key);
/* Takes out a key whose value is wanted; returns the value, or NULL: none is. */
void *hash_take_any(struct hash *h, bool (*wanted)(const void *value, const void *data), const void *data);
/* Gives the map's own memory back; it is empty then. */
void hash_delete(struct hash *h);

#endif
