/* Frames. They are made ahead of need where somebody sees to it (frame_prefetcher.c), else as they are needed, and then
 * recycled: to pin host memory takes the driver 71 us a MiB for a handle of 2 MiB, 73 for one of 8
 * (bench/results/h200-remap.json). No call of the driver is made under a lock. A pool's lock comes before its limit's.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/vmm/vmm.h"
#include "base/bits.h"

enum { BATCH = 32, MAKE = 4 };

/* --- limits --- */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many of n more frames may be made: they count from now on. */
static size_t limit_take(struct vmm_limit *l, size_t n) {
    lock_take(&l->lock);
    size_t taken = l->made < l->most ? least(n, l->most - l->made) : 0;
    l->made += (uint32_t)taken;
    lock_drop(&l->lock);
    return taken;
}

static void limit_give(struct vmm_limit *l, size_t n) {
    lock_take(&l->lock);
    l->made -= (uint32_t)n;
    lock_drop(&l->lock);
}

void vmm_limit_set(struct vmm_limit *l, uint64_t bytes) {
    uint64_t frames = bytes / page_bytes;
    lock_take(&l->lock);
    l->most = frames < VMM_NO_FRAME ? (uint32_t)frames : VMM_NO_FRAME;
    lock_drop(&l->lock);
}

/* --- the pool --- */

bool vmm_pool_open(struct vmm_pool *p, CUmemLocation location, int32_t device, uint64_t bytes,
                   struct vmm_limit *limit) {
    uint64_t frames = bytes / page_bytes, words = bits_words(frames);
    *p = (struct vmm_pool){.location = location, .capacity = (uint32_t)frames, .limit = limit};
    if (frames == 0 || frames >= VMM_NO_FRAME)
        return false;
    p->handles = calloc(frames, sizeof *p->handles);
    p->pieces = calloc(frames, sizeof *p->pieces);
    p->idle = calloc(words, sizeof *p->idle);
    p->bare = calloc(words, sizeof *p->bare);
    p->claims = calloc(frames, sizeof *p->claims);
    p->holders = calloc(frames, sizeof *p->holders);
    p->made_at = calloc(frames, sizeof *p->made_at);
    bool good = p->handles && p->pieces && p->idle && p->bare && p->claims && p->holders && p->made_at;
    p->aliases = good ? vmm_reserve(frames * page_bytes) : 0;
    if (!p->aliases) {
        free(p->handles);
        free(p->pieces);
        free(p->idle);
        free(p->bare);
        free(p->claims);
        free(p->holders);
        free(p->made_at);
        return false;
    }
    p->users.access[p->users.count++] =
        (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (uint32_t i = 0; i < p->capacity; i++)
        bits_set(p->bare, i, true);
    lock_take(&limit->lock);
    p->next_pool = limit->pools;
    limit->pools = p;
    lock_drop(&limit->lock);
    return true;
}

uint64_t vmm_pool_bytes(const struct vmm_pool *p) {
    return (uint64_t)__atomic_load_n(&p->made, __ATOMIC_RELAXED) * page_bytes;
}

/* Under the lock. */
static void count_made(struct vmm_pool *p, uint32_t n) {
    __atomic_store_n(&p->made, p->made + n, __ATOMIC_RELAXED);
}

/* When the first of its claimants came; UINT64_MAX: there is none. */
static uint64_t claimed(const struct vmm_pool *p, uint32_t frame) {
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < VMM_CLAIMS; i++)
        if (p->claims[frame][i] && p->claims[frame][i] < first)
            first = p->claims[frame][i];
    return first;
}

/* Looks among the idle frames [from, end) for one that is claimed later than *best, until there is no later. */
static void look_for_later(const struct vmm_pool *p, uint32_t from, uint32_t end, uint32_t *best, uint64_t *when) {
    for (uint32_t i; *when < UINT64_MAX && (i = bits_first(p->idle, from, end)) < end; from = i + 1) {
        uint64_t c = claimed(p, i);
        if (c > *when) {
            *best = i;
            *when = c;
        }
    }
}

/* Under the lock: beginning behind those taken last, so that neighbours go together. */
static size_t take_idle(struct vmm_pool *p, uint32_t *out, size_t n) {
    size_t taken = 0;
    while (taken < n && p->free > 0) {
        uint32_t i = 0;
        uint64_t when = 0;
        look_for_later(p, p->next, p->capacity, &i, &when);
        look_for_later(p, 0, p->next, &i, &when);
        bits_set(p->idle, i, false);
        p->next = i + 1 < p->capacity ? i + 1 : 0;
        p->free--;
        out[taken++] = i;
    }
    return taken;
}

/* The first of the fewest idle neighbours that are at least n; capacity: there are not so many. Under the lock. */
static uint32_t find_neighbours(const struct vmm_pool *p, size_t n) {
    uint32_t best = p->capacity, fewest = VMM_NO_FRAME;
    for (uint32_t i = 0, end; (i = bits_first(p->idle, i, p->capacity)) < p->capacity; i = end) {
        for (end = i + 1; end < p->capacity && bits_has(p->idle, end);)
            end++;
        if (end - i >= n && end - i < fewest) {
            best = i;
            fewest = end - i;
        }
    }
    return best;
}

/* Likewise. All of them or none. */
static size_t take_neighbours(struct vmm_pool *p, uint32_t *out, size_t n) {
    uint32_t first = p->free >= n ? find_neighbours(p, n) : p->capacity;
    if (first == p->capacity)
        return 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = first + (uint32_t)i;
        bits_set(p->idle, out[i], false);
    }
    p->free -= (uint32_t)n;
    return n;
}

/* Under the lock. */
static size_t take_bare(struct vmm_pool *p, uint32_t *out, size_t n) {
    size_t taken = 0;
    for (uint32_t i = 0; taken < n && (i = bits_first(p->bare, i, p->capacity)) < p->capacity;) {
        bits_set(p->bare, i, false);
        out[taken++] = i;
    }
    return taken;
}

/* Consecutive frames, `first` the lowest, share the call. False: they are mapped still, and as good as before. */
static bool unmake(struct vmm_pool *p, uint32_t first, size_t n) {
    if (!vmm_unmap(vmm_alias(p, first), n * page_bytes))
        return false;
    for (uint32_t i = first; i < first + n; i++) {
        vmm_release(p->handles[i]);
        p->handles[i] = 0;
    }
    return true;
}

static bool make_one(struct vmm_pool *p, uint32_t frame) {
    if (!vmm_create(&p->handles[frame], page_bytes, p->location, false)) {
        p->handles[frame] = 0;
        return false;
    }
    if (vmm_map(vmm_alias(p, frame), page_bytes, p->handles[frame]))
        return true;
    vmm_release(p->handles[frame]);
    p->handles[frame] = 0;
    return false;
}

/* Consecutive frames share the call for their access. Returns how many, from the first, are made. */
static size_t make(struct vmm_pool *p, const uint32_t *frames, size_t n) {
    size_t made = 0;
    while (made < n) {
        size_t run = 0;
        while (made + run < n && frames[made + run] == frames[made] + run && make_one(p, frames[made + run]))
            run++;
        if (run > 0 && !vmm_allow(vmm_alias(p, frames[made]), run * page_bytes, &p->users)) {
            unmake(p, frames[made], run);
            return made;
        }
        if (run == 0)
            return made;
        made += run;
    }
    return made;
}

/* Makes n frames, or as many as there may be. Returns how many. */
static size_t make_more(struct vmm_pool *p, uint32_t *out, size_t n) {
    size_t allowed = limit_take(p->limit, n);
    lock_take(&p->lock);
    size_t bare = take_bare(p, out, allowed);
    lock_drop(&p->lock);
    size_t made = make(p, out, bare);
    lock_take(&p->lock);
    count_made(p, (uint32_t)made);
    for (size_t i = 0; i < made; i++)
        p->made_at[out[i]] = p->arrivals;
    for (size_t i = made; i < bare; i++)
        bits_set(p->bare, out[i], true);
    lock_drop(&p->lock);
    limit_give(p->limit, allowed - made);
    return made;
}

void vmm_frames_give(struct vmm_pool *p, const uint32_t *frames, size_t n) {
    size_t pieces = 0;
    lock_take(&p->lock);
    for (size_t i = 0; i < n; i++) {
        bits_set(p->idle, frames[i], !p->pieces[frames[i]]);
        pieces += p->pieces[frames[i]] != NULL;
    }
    p->free += (uint32_t)(n - pieces);
    lock_drop(&p->lock);
    for (size_t i = 0; pieces > 0 && i < n; i++)
        if (p->pieces[frames[i]])
            vmm_frame_end_pieces(p, frames[i]);
}

void vmm_frame_number_give(struct vmm_pool *p, uint32_t frame) {
    lock_take(&p->lock);
    bits_set(p->bare, frame, true);
    lock_drop(&p->lock);
    limit_give(p->limit, 1);
}

void vmm_frame_count(struct vmm_pool *p, int more) {
    lock_take(&p->lock);
    count_made(p, (uint32_t)more);
    lock_drop(&p->lock);
}

bool vmm_pool_gave_back(struct vmm_pool *p) {
    lock_take(&p->lock);
    bool gave = p->gave_back;
    p->gave_back = false;
    lock_drop(&p->lock);
    return gave;
}

void vmm_pool_look_again(struct vmm_pool *p) {
    lock_take(&p->lock);
    p->gave_back = true;
    lock_drop(&p->lock);
}

/* From the end: frames with low numbers stay together. At most BATCH of them, while more than `most` are made. */
static size_t take_surplus(struct vmm_pool *p, uint64_t most, uint32_t out[BATCH]) {
    size_t n = 0;
    lock_take(&p->lock);
    for (uint32_t i = p->capacity; i-- > 0 && n < BATCH && p->free > 0 && p->made > most;) {
        if (!bits_has(p->idle, i))
            continue;
        bits_set(p->idle, i, false);
        memset(p->claims[i], 0, sizeof p->claims[i]);
        p->made_at[i] = p->arrivals; /* the pages that are stale there came before */
        p->gave_back = true;
        p->free--;
        count_made(p, (uint32_t)-1);
        out[n++] = i;
    }
    lock_drop(&p->lock);
    return n;
}

/* Returns how many of the frames, which descend, are gone, from the first. */
static size_t unmake_all(struct vmm_pool *p, const uint32_t *frames, size_t n) {
    size_t gone = 0, run;
    for (; gone < n; gone += run) {
        for (run = 1; gone + run < n && frames[gone + run] == frames[gone] - run;)
            run++;
        if (!unmake(p, frames[gone + run - 1], run))
            break;
    }
    return gone;
}

void vmm_pool_trim(struct vmm_pool *p, uint64_t bytes) {
    uint32_t frames[BATCH];
    for (size_t n, gone = BATCH; gone == BATCH && (n = take_surplus(p, bytes / page_bytes, frames)) > 0;) {
        gone = unmake_all(p, frames, n);
        lock_take(&p->lock);
        for (size_t i = 0; i < gone; i++)
            bits_set(p->bare, frames[i], true);
        count_made(p, (uint32_t)(n - gone));
        lock_drop(&p->lock);
        limit_give(p->limit, gone);
        vmm_frames_give(p, frames + gone, n - gone);
    }
}

/* What other pools under the same limit keep idle makes room for n frames. */
static void relieve(struct vmm_pool *p, size_t n) {
    lock_take(&p->limit->lock);
    struct vmm_pool *other = p->limit->pools;
    lock_drop(&p->limit->lock);
    for (; other; other = other->next_pool) {
        uint64_t made = vmm_pool_bytes(other);
        if (other != p)
            vmm_pool_trim(other, made > n * page_bytes ? made - n * page_bytes : 0);
    }
}

/* Idle frames that are missing from the stock. Under the lock. */
static size_t missing(const struct vmm_pool *p) {
    size_t short_of = p->free < p->stock ? p->stock - p->free : 0;
    return p->made < p->ahead ? least(short_of, p->ahead - p->made) : 0;
}

bool vmm_frames_take(struct vmm_pool *p, uint32_t *out, size_t n, bool together) {
    lock_take(&p->lock);
    size_t have = together ? take_neighbours(p, out, n) : 0;
    if (have == 0)
        have = take_idle(p, out, n);
    void (*low)(void *) = missing(p) > 0 ? p->low : NULL;
    void *data = p->low_data;
    lock_drop(&p->lock);
    if (low)
        low(data);
    have += make_more(p, out + have, n - have);
    if (have < n) {
        relieve(p, n - have);
        have += make_more(p, out + have, n - have);
    }
    if (have == n)
        return true;
    vmm_frames_give(p, out, have);
    return false;
}

uint32_t vmm_frame_number_take(struct vmm_pool *p) {
    uint32_t frame = VMM_NO_FRAME;
    bool allowed = limit_take(p->limit, 1) > 0;
    if (!allowed) {
        relieve(p, 1);
        allowed = limit_take(p->limit, 1) > 0;
    }
    lock_take(&p->lock);
    size_t bare = allowed ? take_bare(p, &frame, 1) : 0;
    lock_drop(&p->lock);
    if (allowed && bare == 0)
        limit_give(p->limit, 1);
    return bare > 0 ? frame : VMM_NO_FRAME;
}

void vmm_pool_keep(struct vmm_pool *p, uint32_t stock, uint64_t bytes, void (*low)(void *), void *data) {
    uint64_t frames = bytes / page_bytes;
    lock_take(&p->lock);
    p->stock = stock;
    p->ahead = frames < p->capacity ? (uint32_t)frames : p->capacity;
    p->low = low;
    p->low_data = data;
    lock_drop(&p->lock);
}

bool vmm_pool_stock(struct vmm_pool *p) {
    uint32_t frames[MAKE];
    lock_take(&p->lock);
    size_t n = least(missing(p), MAKE);
    lock_drop(&p->lock);
    size_t made = n ? make_more(p, frames, n) : 0;
    vmm_frames_give(p, frames, made);
    return made > 0;
}
