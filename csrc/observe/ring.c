#define _GNU_SOURCE
#include "observe/ring.h"

#include <sys/mman.h>

static struct ring *rings;
static uint32_t count;

static uint64_t load(const uint64_t *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static bool own(struct ring *r, uint32_t thread) {
    uint32_t state = RING_FREE;
    if (!__atomic_compare_exchange_n(&r->state, &state, RING_OWNED, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&r->thread, thread, __ATOMIC_RELAXED);
    return true;
}

struct ring *ring_take(uint32_t thread) {
    for (struct ring *r = ring_first(); r; r = r->next_ring)
        if (own(r, thread))
            return r;
    if (__atomic_load_n(&count, __ATOMIC_RELAXED) >= RINGS_MAX)
        return NULL;
    struct ring *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == MAP_FAILED)
        return NULL;
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    r->thread = thread;
    r->state = RING_OWNED;
    r->next_ring = __atomic_load_n(&rings, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&rings, &r->next_ring, r, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    return r;
}

void ring_leave(struct ring *r) {
    __atomic_store_n(&r->state, RING_LEFT, __ATOMIC_RELEASE);
}

struct ring *ring_first(void) {
    return __atomic_load_n(&rings, __ATOMIC_ACQUIRE);
}

void ring_forget(void) {
    rings = NULL;
    count = 0;
}

/* The strict < keeps a record from ending at the end of the ring: head then never stands at the start of a lap that has
 * no record yet, and wrap is always set before head leaves the lap. */
void *ring_fill(struct ring *r, uint32_t bytes, bool keep) {
    uint64_t head = r->head, offset = head % RING_BYTES;
    bool wraps = offset + bytes >= RING_BYTES;
    uint64_t start = wraps ? head - offset + RING_BYTES : head;
    uint64_t most = start + bytes - RING_BYTES + (keep ? 0 : RING_RESERVE); /* tail must be here or further */
    if ((int64_t)(r->seen - most) < 0 && (int64_t)((r->seen = load(&r->tail)) - most) < 0) {
        __atomic_store_n(&r->lost, r->lost + 1, __ATOMIC_RELAXED);
        return NULL;
    }
    if (wraps)
        r->wrap = offset;
    r->next = start + bytes;
    return r->data + start % RING_BYTES;
}

bool ring_commit(struct ring *r) {
    __atomic_store_n(&r->head, r->next, __ATOMIC_RELEASE);
    return r->next - r->seen > RING_BYTES / 2 && r->next - (r->seen = load(&r->tail)) > RING_BYTES / 2;
}

size_t ring_peek(struct ring *r, const unsigned char **data) {
    uint64_t head = load(&r->head), tail = r->tail, offset = tail % RING_BYTES;
    if (head / RING_BYTES != tail / RING_BYTES) {
        if (offset < r->wrap) {
            *data = r->data + offset;
            return r->wrap - offset;
        }
        tail += RING_BYTES - offset;
        __atomic_store_n(&r->tail, tail, __ATOMIC_RELEASE);
    }
    *data = r->data + tail % RING_BYTES;
    return head - tail;
}

void ring_drain(struct ring *r, size_t bytes) {
    __atomic_store_n(&r->tail, r->tail + bytes, __ATOMIC_RELEASE);
}
