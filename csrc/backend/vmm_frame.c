/* Frames. They are made as they are needed for the first time and then recycled: pinning host memory takes the driver
 * 40 us a MiB. No call of the driver is made under the lock. */
#include <stdlib.h>

#include "backend/vmm.h"

enum { WORD = 64, BATCH = 32 };

/* --- bits by frame --- */

static bool has(const uint64_t *bits, uint32_t i) {
    return bits[i / WORD] >> i % WORD & 1;
}

static void set(uint64_t *bits, uint32_t i, bool on) {
    uint64_t bit = (uint64_t)1 << i % WORD;
    bits[i / WORD] = on ? bits[i / WORD] | bit : bits[i / WORD] & ~bit;
}

/* The first that is set from `from` on; `end`: none below it. */
static uint32_t first_set(const uint64_t *bits, uint32_t from, uint32_t end) {
    while (from < end) {
        uint64_t word = bits[from / WORD] >> from % WORD;
        if (word) {
            uint32_t i = from + (uint32_t)__builtin_ctzll(word);
            return i < end ? i : end;
        }
        from = (from / WORD + 1) * WORD;
    }
    return end;
}

/* --- the pool --- */

bool vmm_pool_open(struct vmm_pool *p, CUmemLocation location, int32_t device, uint64_t bytes) {
    uint64_t frames = bytes / PAGE_BYTES, words = frames / WORD + 1;
    *p = (struct vmm_pool){.location = location, .capacity = (uint32_t)frames};
    if (frames == 0 || frames >= VMM_NO_FRAME)
        return false;
    p->handles = calloc(frames, sizeof *p->handles);
    p->idle = calloc(words, sizeof *p->idle);
    p->bare = calloc(words, sizeof *p->bare);
    p->aliases = p->handles && p->idle && p->bare ? vmm_reserve(frames * PAGE_BYTES) : 0;
    if (!p->aliases) {
        free(p->handles);
        free(p->idle);
        free(p->bare);
        return false;
    }
    p->users.access[p->users.count++] =
        (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (uint32_t i = 0; i < p->capacity; i++)
        set(p->bare, i, true);
    pthread_mutex_init(&p->lock, NULL);
    return true;
}

uint64_t vmm_pool_bytes(const struct vmm_pool *p) {
    return (uint64_t)__atomic_load_n(&p->made, __ATOMIC_RELAXED) * PAGE_BYTES;
}

static void count_made(struct vmm_pool *p, uint32_t n) {
    __atomic_store_n(&p->made, p->made + n, __ATOMIC_RELAXED);
}

/* Under the lock: the first idle ones behind those taken last, so that neighbours go together. */
static size_t take_idle(struct vmm_pool *p, uint32_t *out, size_t n) {
    size_t taken = 0;
    while (taken < n && p->free > 0) {
        uint32_t i = first_set(p->idle, p->next, p->capacity);
        if (i == p->capacity)
            i = first_set(p->idle, 0, p->next);
        set(p->idle, i, false);
        p->next = i + 1 < p->capacity ? i + 1 : 0;
        p->free--;
        out[taken++] = i;
    }
    return taken;
}

/* Under the lock. */
static size_t take_bare(struct vmm_pool *p, uint32_t *out, size_t n) {
    size_t taken = 0;
    for (uint32_t i = 0; taken < n && (i = first_set(p->bare, i, p->capacity)) < p->capacity;) {
        set(p->bare, i, false);
        out[taken++] = i;
    }
    return taken;
}

/* False: it is mapped still, and as good as before. */
static bool unmake(struct vmm_pool *p, uint32_t frame) {
    if (!vmm_unmap(vmm_alias(p, frame), PAGE_BYTES))
        return false;
    vmm_release(p->handles[frame]);
    p->handles[frame] = 0;
    return true;
}

static bool make_one(struct vmm_pool *p, uint32_t frame) {
    if (!vmm_create(&p->handles[frame], p->location)) {
        p->handles[frame] = 0;
        return false;
    }
    if (vmm_map(vmm_alias(p, frame), p->handles[frame]))
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
        if (run > 0 && !vmm_allow(vmm_alias(p, frames[made]), run * PAGE_BYTES, &p->users)) {
            for (size_t i = 0; i < run; i++)
                unmake(p, frames[made + i]);
            return made;
        }
        if (run == 0)
            return made;
        made += run;
    }
    return made;
}

void vmm_frames_give(struct vmm_pool *p, const uint32_t *frames, size_t n) {
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < n; i++)
        set(p->idle, frames[i], true);
    p->free += (uint32_t)n;
    pthread_mutex_unlock(&p->lock);
}

bool vmm_frames_take(struct vmm_pool *p, uint32_t *out, size_t n) {
    pthread_mutex_lock(&p->lock);
    size_t idle = take_idle(p, out, n), bare = take_bare(p, out + idle, n - idle);
    pthread_mutex_unlock(&p->lock);
    size_t made = make(p, out + idle, bare);
    pthread_mutex_lock(&p->lock);
    count_made(p, (uint32_t)made);
    for (size_t i = idle + made; i < idle + bare; i++)
        set(p->bare, out[i], true);
    pthread_mutex_unlock(&p->lock);
    if (idle + made == n)
        return true;
    vmm_frames_give(p, out, idle + made);
    return false;
}

/* From the end: frames with low numbers stay together. */
static size_t take_surplus(struct vmm_pool *p, uint64_t most, uint32_t out[BATCH]) {
    size_t n = 0;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = p->capacity; i-- > 0 && n < BATCH && p->free > 0 && p->made > most;) {
        if (!has(p->idle, i))
            continue;
        set(p->idle, i, false);
        p->free--;
        count_made(p, (uint32_t)-1);
        out[n++] = i;
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

void vmm_pool_trim(struct vmm_pool *p, uint64_t bytes) {
    uint32_t frames[BATCH];
    for (size_t n; (n = take_surplus(p, bytes / PAGE_BYTES, frames)) > 0;) {
        size_t gone = 0;
        while (gone < n && unmake(p, frames[gone]))
            gone++;
        pthread_mutex_lock(&p->lock);
        for (size_t i = 0; i < gone; i++)
            set(p->bare, frames[i], true);
        count_made(p, (uint32_t)(n - gone));
        pthread_mutex_unlock(&p->lock);
        vmm_frames_give(p, frames + gone, n - gone);
        if (gone < n)
            return;
    }
}
