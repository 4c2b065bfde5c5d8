/* Items of one size from the system's pages. An item given back keeps its type and stays mapped while the pool lives,
 * so that a look-up that lost a race may still read it. Callers hold the writer's lock. A zeroed pool is an empty one.
 */
#ifndef ULMS_POOL_H
#define ULMS_POOL_H

#include <stddef.h>

struct pool {
    struct slab *slabs; /* latest first */
    void *spare;        /* items given back, each linked by its first word, which is the pool's */
    char *room;         /* items never handed out: `unused` of them */
    size_t unused;
};

/* Pages from the system, zeroed; NULL when it has none. errno is kept. */
void *pages_new(size_t bytes);
void pages_delete(void *pages, size_t bytes);

/* The pool takes its next items from here, as many as fit; the memory, 64-byte aligned and zeroed, stays the caller's.
 * The pool is empty. */
void pool_lend(struct pool *p, void *memory, size_t bytes, size_t item_bytes);
/* An item of item_bytes, a multiple of 64 and the same for all of a pool, zeroed when it is handed out for the first
 * time, 64-byte aligned; NULL when the system has no memory. */
void *pool_take(struct pool *p, size_t item_bytes);
void pool_give(struct pool *p, void *item);
/* Gives all pages back. The pool is then empty and may be used again. */
void pool_clear(struct pool *p);

#endif
