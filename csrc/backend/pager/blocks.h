/* Blocks of the framework's allocator. */
#ifndef ULMS_PAGER_BLOCKS_H
#define ULMS_PAGER_BLOCKS_H

#include "base/lock.h"
#include "types.h"

struct pager;

/* Whether the engine hears of them: from the first time that pages move, that there is a second device, or that a
 * capture gets some. */
bool pager_hears(void);
/* From now on. The device is the only one. Under the lock; pager_hear_before takes it, and takes NULL. */
void pager_hear(struct pager *d);
void pager_hear_before(struct pager *d);
/* Until it has caught up. */
void pager_hear_wait(void);
/* One that need not be the framework's begins (or ends) now. Under the lock. */
void pager_block_change(struct pager *d, addr_t start, uint64_t bytes, bool live);

struct pager_block {
    addr_t start;
    uint64_t bytes;
    bool live;
};

/* Told, and the engine has not heard of them: the threads that tell would wait for who plans moves. */
enum { PAGER_TOLD_MAX = 64 };
struct pager_blocks {
    struct lock lock; /* below the device's */
    struct pager_block block[PAGER_TOLD_MAX];
    uint32_t count;                           /* atomic */
    struct pager_block heard[PAGER_TOLD_MAX]; /* of these the engine is just hearing. Under the device's lock */
};
/* The engine hears of all of them: before memory comes or goes, an operation is admitted or a move begins. Under the
 * lock. */
void pager_blocks_hear(struct pager *d);
/* Of one. Under the lock. */
void pager_block_hear(struct pager *d, const struct pager_block *b);
/* It hears of the block later. False: there are too many. */
bool pager_block_put(struct pager *d, const struct pager_block *b);

#endif
