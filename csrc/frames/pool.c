/* The pool. Frames are made ahead of need where somebody sees to it, else as they are needed, and then recycled: to pin
 * host memory takes the driver 71 us a MiB for a handle of 2 MiB, 73 for one of 8 (bench/results/h200-remap.json). No
 * lock is held while memory is made or unmade. A pool's lock comes before its limit's. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/larger.h"
#include "base/page.h"
#include "frames/frames.h"

enum { BATCH = 32, MAKE = 4 };

/* --- limits --- */

/* How many of n more frames may be made: they count from now on. */
static size_t limit_take(struct frames_limit *l, size_t n) {
    lock_take(&l->lock);
    size_t taken = l->made < l->most ? smaller(n, l->most - l->made) : 0;
    l->made += (uint32_t)taken;
    lock_drop(&l->lock);
    return taken;
}

static void limit_give(struct frames_limit *l, size_t n) {
    lock_take(&l->lock);
    l->made -= (uint32_t)n;
    lock_drop(&l->lock);
}

static void count_given(struct frames_limit *l, size_t n) {
    __atomic_fetch_add(&l->given, n > 0, __ATOMIC_SEQ_CST);
}

static void hold(struct frames_limit *l, bool holds) {
    __atomic_fetch_add(&l->held, holds ? 1 : -1u, __ATOMIC_SEQ_CST);
}

uint64_t frames_given(const struct ulms_frames *f) {
    return __atomic_load_n(&f->limit->given, __ATOMIC_SEQ_CST);
}

bool frames_may_come(const struct ulms_frames *f, uint64_t given) {
    return __atomic_load_n(&f->limit->held, __ATOMIC_SEQ_CST) > 0 || frames_given(f) != given;
}

void frames_limit_set(struct frames_limit *l, uint64_t bytes) {
    uint64_t frames = bytes / page_bytes;
    lock_take(&l->lock);
    l->most = frames < NO_FRAME ? (uint32_t)frames : NO_FRAME;
    lock_drop(&l->lock);
}

/* --- the pool --- */

/* Of a pool that shares no limit. */
static void frames_close(struct ulms_frames *f) {
    free(f->frame);
    free(f->idle);
    free(f->bare);
}

bool frames_open(struct ulms_frames *f, uint64_t count, const struct frames_memory *memory, void *own,
                 struct frames_limit *limit) {
    *f = (struct ulms_frames){.capacity = (uint32_t)count, .memory = memory, .own = own, .alone = FRAMES_LIMIT_NONE};
    f->limit = limit ? limit : &f->alone;
    if (count == 0 || count >= NO_FRAME)
        return false;
    f->frame = calloc(count, sizeof *f->frame);
    f->idle = calloc(bits_words(count), sizeof *f->idle);
    f->bare = calloc(bits_words(count), sizeof *f->bare);
    if (!f->frame || !f->idle || !f->bare) {
        frames_close(f);
        return false;
    }
    for (uint32_t i = 0; i < f->capacity; i++)
        bits_set(f->bare, i, true);
    lock_take(&f->limit->lock);
    f->next_pool = f->limit->pools;
    f->limit->pools = f;
    lock_drop(&f->limit->lock);
    return true;
}

struct ulms_frames *ulms_frames_new(uint32_t count) {
    struct ulms_frames *f = malloc(sizeof *f);
    if (f && frames_open(f, count, NULL, NULL, NULL))
        return f;
    free(f);
    return NULL;
}

void ulms_frames_free(struct ulms_frames *f) {
    frames_close(f);
    free(f);
}

uint64_t frames_bytes(const struct ulms_frames *f) {
    return (uint64_t)__atomic_load_n(&f->made, __ATOMIC_RELAXED) * page_bytes;
}

/* Under the lock. */
static void count_made(struct ulms_frames *f, uint32_t n) {
    __atomic_store_n(&f->made, f->made + n, __ATOMIC_RELAXED);
}

/* When the first of its claimants came; UINT64_MAX: there is none. */
static uint64_t claimed(const struct ulms_frames *f, uint32_t frame) {
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < FRAMES_CLAIMS; i++)
        if (f->frame[frame].claims[i] && f->frame[frame].claims[i] < first)
            first = f->frame[frame].claims[i];
    return first;
}

/* Looks among the idle frames [from, end) for one that is claimed later than *best, until there is no later. */
static void look_for_later(const struct ulms_frames *f, uint32_t from, uint32_t end, uint32_t *best, uint64_t *when) {
    for (uint32_t i; *when < UINT64_MAX && (i = bits_first(f->idle, from, end)) < end; from = i + 1) {
        uint64_t c = claimed(f, i);
        if (c > *when) {
            *best = i;
            *when = c;
        }
    }
}

/* Under the lock: beginning behind those taken last, so that neighbours go together. */
static size_t take_idle(struct ulms_frames *f, uint32_t *out, size_t n) {
    size_t taken = 0;
    while (taken < n && f->free > 0) {
        uint32_t i = 0;
        uint64_t when = 0;
        look_for_later(f, f->next, f->capacity, &i, &when);
        look_for_later(f, 0, f->next, &i, &when);
        bits_set(f->idle, i, false);
        f->next = i + 1 < f->capacity ? i + 1 : 0;
        f->free--;
        out[taken++] = i;
    }
    return taken;
}

/* The first of the fewest idle neighbours that are at least n; capacity: there are not so many. Under the lock. */
static uint32_t find_neighbours(const struct ulms_frames *f, size_t n) {
    uint32_t best = f->capacity, fewest = NO_FRAME;
    for (uint32_t i = 0, end; (i = bits_first(f->idle, i, f->capacity)) < f->capacity; i = end) {
        for (end = i + 1; end < f->capacity && bits_has(f->idle, end);)
            end++;
        if (end - i >= n && end - i < fewest) {
            best = i;
            fewest = end - i;
        }
    }
    return best;
}

/* Likewise. All of them or none. */
static size_t take_neighbours(struct ulms_frames *f, uint32_t *out, size_t n) {
    uint32_t first = f->free >= n ? find_neighbours(f, n) : f->capacity;
    if (first == f->capacity)
        return 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = first + (uint32_t)i;
        bits_set(f->idle, out[i], false);
    }
    f->free -= (uint32_t)n;
    return n;
}

/* Under the lock. */
static size_t take_bare(struct ulms_frames *f, uint32_t *out, size_t n) {
    size_t taken = 0;
    for (uint32_t i = 0; taken < n && (i = bits_first(f->bare, i, f->capacity)) < f->capacity;) {
        bits_set(f->bare, i, false);
        out[taken++] = i;
    }
    return taken;
}

/* Consecutive frames are made together. Returns how many, from the first, are made. */
static size_t make(struct ulms_frames *f, const uint32_t *frames, size_t n) {
    size_t made = 0;
    for (size_t run, all = 1; made < n && all; made += all) {
        for (run = 1; made + run < n && frames[made + run] == frames[made] + run;)
            run++;
        all = f->memory ? f->memory->make(f->own, frames[made], run) : run;
    }
    return made;
}

/* Makes n frames, or as many as there may be. Returns how many. */
static size_t make_more(struct ulms_frames *f, uint32_t *out, size_t n) {
    size_t allowed = limit_take(f->limit, n);
    lock_take(&f->lock);
    size_t bare = take_bare(f, out, allowed);
    count_made(f, (uint32_t)bare); /* the driver may take its memory at any moment */
    lock_drop(&f->lock);
    size_t made = make(f, out, bare);
    lock_take(&f->lock);
    count_made(f, (uint32_t)(made - bare));
    for (size_t i = 0; i < made; i++)
        f->frame[out[i]].made_at = f->arrivals;
    for (size_t i = made; i < bare; i++)
        bits_set(f->bare, out[i], true);
    lock_drop(&f->lock);
    limit_give(f->limit, allowed - made);
    return made;
}

static bool unmake(struct ulms_frames *f, uint32_t first, size_t n) {
    return !f->memory || f->memory->unmake(f->own, first, n);
}

/* It is made, or is so no more. */
static void set_once(struct ulms_frames *f, uint32_t frame, bool made) {
    lock_take(&f->lock);
    count_made(f, (uint32_t)made - f->frame[frame].once);
    f->frame[frame].once = made;
    bits_set(f->bare, frame, !made);
    lock_drop(&f->lock);
}

/* If it cannot be unmade it keeps its memory and its number for good. */
static void unmake_once(struct ulms_frames *f, uint32_t frame) {
    if (!unmake(f, frame, 1))
        return;
    set_once(f, frame, false);
    limit_give(f->limit, 1);
    count_given(f->limit, 1);
}

void ulms_frames_give(struct ulms_frames *f, const uint32_t *frames, size_t n) {
    size_t once = 0;
    lock_take(&f->lock);
    for (size_t i = 0; i < n; i++) {
        bits_set(f->idle, frames[i], !f->frame[frames[i]].once);
        once += f->frame[frames[i]].once;
    }
    f->free += (uint32_t)(n - once);
    lock_drop(&f->lock);
    for (size_t i = 0; once > 0 && i < n; i++)
        if (f->frame[frames[i]].once)
            unmake_once(f, frames[i]);
    count_given(f->limit, n - once);
}

uint32_t frames_lingering(const struct ulms_frames *f) {
    return __atomic_load_n(&f->lingering, __ATOMIC_RELAXED);
}

/* Two may have looked at the same time. */
void frames_left(struct ulms_frames *f, uint32_t n) {
    lock_take(&f->lock);
    __atomic_store_n(&f->lingering, f->lingering - (n < f->lingering ? n : f->lingering), __ATOMIC_RELAXED);
    lock_drop(&f->lock);
}

/* From the end: frames with low numbers stay together. At most BATCH of them, while more than `most` are made. */
static size_t take_surplus(struct ulms_frames *f, uint64_t most, uint32_t out[BATCH]) {
    size_t n = 0;
    lock_take(&f->lock);
    for (uint32_t i = f->capacity; i-- > 0 && n < BATCH && f->free > 0 && f->made > most;) {
        if (!bits_has(f->idle, i))
            continue;
        bits_set(f->idle, i, false);
        memset(f->frame[i].claims, 0, sizeof f->frame[i].claims);
        f->frame[i].made_at = f->arrivals; /* the pages that are stale there came before */
        __atomic_store_n(&f->lingering, f->lingering + 1, __ATOMIC_RELAXED);
        f->free--;
        count_made(f, (uint32_t)-1);
        out[n++] = i;
    }
    lock_drop(&f->lock);
    return n;
}

/* Returns how many of the frames, which descend, are gone, from the first. */
static size_t unmake_all(struct ulms_frames *f, const uint32_t *frames, size_t n) {
    size_t gone = 0, run;
    for (; gone < n; gone += run) {
        for (run = 1; gone + run < n && frames[gone + run] == frames[gone] - run;)
            run++;
        if (!unmake(f, frames[gone + run - 1], run))
            break;
    }
    return gone;
}

void frames_trim(struct ulms_frames *f, uint64_t bytes) {
    uint32_t frames[BATCH];
    hold(f->limit, true);
    for (size_t n, gone = BATCH; gone == BATCH && (n = take_surplus(f, bytes / page_bytes, frames)) > 0;) {
        gone = unmake_all(f, frames, n);
        lock_take(&f->lock);
        for (size_t i = 0; i < gone; i++)
            bits_set(f->bare, frames[i], true);
        count_made(f, (uint32_t)(n - gone));
        lock_drop(&f->lock);
        limit_give(f->limit, gone);
        count_given(f->limit, gone);
        ulms_frames_give(f, frames + gone, n - gone);
    }
    hold(f->limit, false);
}

/* What other pools under the same limit keep idle makes room for n frames. */
static void relieve(struct ulms_frames *f, size_t n) {
    lock_take(&f->limit->lock);
    struct ulms_frames *other = f->limit->pools;
    lock_drop(&f->limit->lock);
    for (; other; other = other->next_pool) {
        uint64_t made = frames_bytes(other);
        if (other != f)
            frames_trim(other, made > n * page_bytes ? made - n * page_bytes : 0);
    }
}

/* Idle frames that are missing from the stock. Under the lock. */
static size_t missing(const struct ulms_frames *f) {
    size_t short_of = f->free < f->stock ? f->stock - f->free : 0;
    return f->made < f->ahead ? smaller(short_of, f->ahead - f->made) : 0;
}

bool frames_take(struct ulms_frames *f, uint32_t *out, size_t n, bool together) {
    lock_take(&f->lock);
    size_t have = together ? take_neighbours(f, out, n) : 0;
    if (have == 0)
        have = take_idle(f, out, n);
    void (*low)(void *) = missing(f) > 0 ? f->low : NULL;
    void *data = f->low_data;
    lock_drop(&f->lock);
    if (low)
        low(data);
    have += make_more(f, out + have, n - have);
    if (have < n) {
        relieve(f, n - have);
        have += make_more(f, out + have, n - have);
    }
    if (have == n)
        return true;
    ulms_frames_give(f, out, have);
    return false;
}

uint32_t frames_make_once(struct ulms_frames *f, bool (*make_one)(void *own, uint32_t frame, size_t n), size_t n) {
    uint32_t frame = NO_FRAME;
    if (limit_take(f->limit, 1) == 0) {
        relieve(f, 1);
        if (limit_take(f->limit, 1) == 0)
            return NO_FRAME;
    }
    lock_take(&f->lock);
    bool bare = take_bare(f, &frame, 1) > 0;
    lock_drop(&f->lock);
    bool made = bare && make_one(f->own, frame, n);
    if (bare)
        set_once(f, frame, made);
    if (!made)
        limit_give(f->limit, 1);
    return made ? frame : NO_FRAME;
}

void frames_keep(struct ulms_frames *f, uint32_t stock, uint64_t bytes, void (*low)(void *), void *data) {
    uint64_t frames = bytes / page_bytes;
    lock_take(&f->lock);
    f->stock = stock;
    f->ahead = frames < f->capacity ? (uint32_t)frames : f->capacity;
    f->low = low;
    f->low_data = data;
    lock_drop(&f->lock);
}

static bool make_some(struct ulms_frames *f, size_t n) {
    uint32_t frames[MAKE];
    hold(f->limit, true);
    size_t made = n > 0 ? make_more(f, frames, smaller(n, MAKE)) : 0;
    ulms_frames_give(f, frames, made);
    hold(f->limit, false);
    return made > 0;
}

bool frames_stock(struct ulms_frames *f) {
    lock_take(&f->lock);
    size_t n = missing(f);
    lock_drop(&f->lock);
    return make_some(f, n);
}

bool frames_make_ahead(struct ulms_frames *f, uint64_t bytes) {
    uint64_t made = frames_bytes(f);
    return make_some(f, made < bytes ? (bytes - made) / page_bytes : 0);
}
