#include "interpose/account/grains.h"

#include "base/hash.h"
#include "base/page.h"
#include "interpose/account/charge.h"

/* As H100 and H200 do. */
enum { SHARED_MOST = 1 << 20, PIECE_ALIGN = 512 };

static struct hash open; /* number of a grain -> how many pieces are in it, as a pointer */
static struct lock lock;
static uint64_t unused[DEVICE_MAX]; /* bytes of open grains that no piece has. Atomic */

bool grains_shared(uint64_t bytes) {
    return bytes <= SHARED_MOST;
}

static uint64_t piece(uint64_t bytes) {
    return (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
}

bool grains_have_room(int device, uint64_t bytes) {
    return device >= 0 && device < DEVICE_MAX && __atomic_load_n(&unused[device], __ATOMIC_RELAXED) >= piece(bytes);
}

/* Returns whether the grain was opened, or closed. */
static bool count(uint64_t grain, intptr_t change) {
    intptr_t before = (intptr_t)hash_take(&open, grain), now = before + change;
    if (now > 0)
        hash_put(&open, grain, (void *)now, NULL);
    return before <= 0 || now <= 0;
}

/* Under the lock. */
static uint64_t change(int device, addr_t start, uint64_t bytes, intptr_t by) {
    uint64_t grains = 0, end = start + piece(bytes);
    for (uint64_t grain = start / PAGE_LEAST; grain * PAGE_LEAST < end; grain++)
        grains += count(grain, by) ? PAGE_LEAST : 0;
    if (device >= 0 && device < DEVICE_MAX)
        unused[device] += (uint64_t)by * (grains - piece(bytes));
    return grains;
}

bool grains_join(struct charge *c, addr_t start, uint64_t bytes, bool (*promise)(struct charge *, uint64_t opened),
                 uint64_t *opened) {
    lock_take(&lock);
    *opened = change(c->device, start, bytes, 1);
    bool promised = promise(c, *opened);
    if (!promised)
        change(c->device, start, bytes, -1);
    lock_drop(&lock);
    return promised;
}

uint64_t grains_leave(int device, addr_t start, uint64_t bytes) {
    lock_take(&lock);
    uint64_t closed = change(device, start, bytes, -1);
    lock_drop(&lock);
    return closed;
}
