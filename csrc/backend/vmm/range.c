/* Ranges: reserved addresses, and what is mapped at each page. A run of pages is mapped frame by frame and gets its
 * access in one call, which is the dear one. */
#include <stdlib.h>
#include <string.h>

#include "backend/vmm/vmm.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/real.h"
#include "observe/stats.h"

enum { BATCH = 64 };

static const struct vmm_page EMPTY = {.frame = {NO_FRAME, NO_FRAME}, .slot = NO_SLOT, .at = VMM_UNMAPPED};

/* Plain memory is open to a peer when the program says so; here it is from the start, to those that the driver accepts
 * on a frame's alias. */
static void find_users(struct vmm *v) {
    struct vmm_pool *pool = &v->pool[VMM_DEVICE];
    uint32_t frame;
    int devices = 0;
    REAL(cuDeviceGetCount, 0)(&devices);
    if (devices <= 1 || !frames_take(&pool->frames, &frame, 1, false))
        return;
    for (int d = 0; d < devices && d < DEVICE_MAX; d++) {
        struct vmm_users peer = {.count = 1};
        peer.access[0] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (d != v->device && vmm_allow(vmm_alias(pool, frame), page_bytes, &peer))
            v->users.access[v->users.count++] = peer.access[0];
    }
    ulms_frames_give(&pool->frames, &frame, 1);
}

bool vmm_open(struct vmm *v, int32_t device, CUmemLocation host, struct frames_limit *host_limit) {
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    uint64_t host_bytes = (uint64_t)host_limit->most * page_bytes;
    size_t total = 0;
    *v = (struct vmm){.device = device, .file = page_file_of_process()};
    d2h_queue_open(&v->d2h_queue);
    if (REAL(cuDeviceTotalMem_v2, 0)(&total, device) != CUDA_SUCCESS ||
        !vmm_pool_open(&v->pool[VMM_DEVICE], here, device, total, NULL) ||
        !vmm_pool_open(&v->pool[VMM_HOST], host, device, host_bytes, host_limit))
        return false;
    v->users = v->pool[VMM_DEVICE].users;
    find_users(v);
    return true;
}

/* --- the list --- */

struct vmm_range *vmm_range_find(struct vmm *v, addr_t p) {
    lock_take(&v->lock);
    struct vmm_range *r = spans_find(&v->ranges, p);
    lock_drop(&v->lock);
    return r;
}

static bool range_enter(struct vmm *v, struct vmm_range *r) {
    lock_take(&v->lock);
    bool entered = spans_insert(&v->ranges, r->start, r->start + r->bytes, r);
    lock_drop(&v->lock);
    return entered;
}

static void take_out(struct vmm *v, const struct vmm_range *r) {
    lock_take(&v->lock);
    spans_take(&v->ranges, spans_behind(&v->ranges, r->start));
    lock_drop(&v->lock);
}

/* --- mapping --- */

static addr_t address(const struct vmm_range *r, size_t page) {
    return r->start + page * page_bytes;
}

/* Of pages that have nothing mapped. All or nothing. */
static bool map_run(const struct vmm *v, struct vmm_range *r, size_t first, size_t n, enum vmm_place place) {
    const CUmemGenericAllocationHandle *handles = v->pool[place].handles;
    size_t done = 0;
    uint64_t began = clock_ns();
    while (done < n && vmm_map(address(r, first + done), page_bytes, handles[r->page[first + done].frame[place]]))
        done++;
    bool allowed = done == n && vmm_allow(address(r, first), n * page_bytes, &v->users);
    stats_add(COUNT_map_ns, clock_ns() - began);
    if (allowed) {
        stats_add(COUNT_mapped_bytes, n * page_bytes);
        for (size_t i = first; i < first + n; i++)
            vmm_page_lies(&r->page[i], (uint8_t)place);
        return true;
    }
    if (done > 0)
        vmm_unmap_again(address(r, first), done * page_bytes);
    return false;
}

/* The pages of [*first, end) that follow one another with the same `at`, other than `but`: moves *first to them,
 * returns how many. */
static size_t next_run(const struct vmm_range *r, size_t *first, size_t end, unsigned but) {
    size_t n = 0;
    while (*first < end && r->page[*first].at == but)
        ++*first;
    while (*first + n < end && r->page[*first + n].at != but && r->page[*first + n].at == r->page[*first].at)
        n++;
    return n;
}

/* What is in the file is not mapped on the host. */
static bool is_bare(const struct vmm_page *p, enum vmm_place to) {
    return p->at == VMM_UNMAPPED && (to == VMM_DEVICE || !vmm_page_is_filed(p));
}

/* The same of pages that are to be mapped, and all have a frame of the other place or none. */
static size_t next_bare(const struct vmm_range *r, size_t *first, size_t end, enum vmm_place to) {
    enum vmm_place other = to == VMM_HOST ? VMM_DEVICE : VMM_HOST;
    const struct vmm_page *p = r->page;
    size_t n = 0;
    while (*first < end && !is_bare(&p[*first], to))
        ++*first;
    while (*first + n < end && is_bare(&p[*first + n], to) &&
           (p[*first + n].frame[other] == NO_FRAME) == (p[*first].frame[other] == NO_FRAME))
        n++;
    return n;
}

bool vmm_range_unmap(struct vmm *v, struct vmm_range *r, size_t first, size_t n, unsigned but) {
    size_t end = first + n;
    bool whole = true;
    for (size_t run; (run = next_run(r, &first, end, but)) > 0; first += run) {
        if (r->page[first].at == VMM_UNMAPPED)
            continue;
        for (size_t i = first; i < first + run && r->page[first].at == VMM_STALE; i++)
            frames_reclaim(&v->pool[VMM_DEVICE].frames, &r->page[i].claim, false);
        uint64_t began = clock_ns();
        bool unmapped = vmm_unmap(address(r, first), run * page_bytes);
        stats_add(COUNT_map_ns, clock_ns() - began);
        if (!unmapped) {
            whole = false;
            continue;
        }
        if (r->page[first].at == VMM_PLACEHOLDER)
            vmm_placeholder_left(v, run);
        for (size_t i = first; i < first + run; i++)
            vmm_page_lies(&r->page[i], VMM_UNMAPPED);
    }
    return whole;
}

/* Many at once may fail where a few do not. */
static bool map_by_halves(struct vmm *v, struct vmm_range *r, size_t first, size_t n, enum vmm_place place) {
    if (map_run(v, r, first, n, place) || n == 1)
        return r->page[first].at == place;
    bool low = map_by_halves(v, r, first, n / 2, place);
    return map_by_halves(v, r, first + n / 2, n - n / 2, place) && low;
}

/* Something must be mapped there, or what touches it ends the program's context. */
static void map_somehow(struct vmm *v, struct vmm_range *r, size_t first, size_t n, enum vmm_place place) {
    for (int i = 0; i < VMM_TRIES; i++) {
        bool whole = true;
        for (size_t at = first, run; (run = vmm_page_next(r, &at, first + n, vmm_page_is_unmapped)) > 0; at += run)
            whole = map_by_halves(v, r, at, run, place) && whole;
        if (whole)
            return;
        thread_sleep(VMM_TRY_US);
    }
    __atomic_store_n(&v->loses, true, __ATOMIC_RELAXED);
    log_error(
        "device %d: the driver maps memory no more: %zu pages at 0x%llx are lost, what uses them is refused as out "
        "of memory",
        v->device, n, (unsigned long long)address(r, first));
}

bool vmm_range_map(struct vmm *v, struct vmm_range *r, size_t first, size_t n, enum vmm_place to) {
    enum vmm_place other = to == VMM_HOST ? VMM_DEVICE : VMM_HOST;
    size_t end = first + n;
    bool whole = true;
    for (size_t at = first, run; (run = next_bare(r, &at, end, to)) > 0; at += run)
        if (!map_run(v, r, at, run, to))
            map_somehow(v, r, at, run, r->page[at].frame[other] == NO_FRAME ? to : other);
    for (size_t i = first; i < end; i++)
        whole = whole && (r->page[i].at == to ||
                          (to == VMM_HOST && (r->page[i].at == VMM_PLACEHOLDER || vmm_page_is_filed(&r->page[i]))));
    return whole;
}

/* What uses a page that is stale uses another's bytes. */
static bool unmap_somehow(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    for (int i = 0; i < VMM_TRIES; i++) {
        if (vmm_range_unmap(v, r, first, n, VMM_HOST))
            return true;
        thread_sleep(VMM_TRY_US);
    }
    __atomic_store_n(&v->loses, true, __ATOMIC_RELAXED);
    log_error("device %d: the driver unmaps memory no more: %zu pages at 0x%llx are lost, what uses them is refused as "
              "out of memory",
              v->device, n, (unsigned long long)address(r, first));
    return false;
}

void vmm_range_map_stale(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    size_t end = first + n;
    for (size_t run; (run = vmm_page_next(r, &first, end, vmm_page_is_vacant)) > 0; first += run)
        if (unmap_somehow(v, r, first, run))
            vmm_range_map(v, r, first, run, VMM_HOST);
}

/* --- their life --- */

bool vmm_range_empty(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    if (!vmm_range_unmap(v, r, first, n, VMM_UNMAPPED))
        return false;
    for (size_t i = first; i < first + n; i++) {
        vmm_page_drop(v, &r->page[i], VMM_DEVICE);
        vmm_page_drop(v, &r->page[i], VMM_HOST);
        vmm_page_file(v, &r->page[i], NO_SLOT);
        r->page[i] = EMPTY;
    }
    return true;
}

/* Takes as many as there are. Returns how many. */
static size_t take_some(struct ulms_frames *f, uint32_t *out, size_t n) {
    size_t have = 0;
    for (size_t some; have < n; have += some) {
        some = smaller(BATCH, n - have);
        while (some > 0 && !frames_take(f, out + have, some, false))
            some /= 2;
        if (some == 0)
            break;
    }
    return have;
}

/* There are so many more. */
static bool leaves(struct ulms_frames *f, size_t spare) {
    uint32_t frames[BATCH];
    bool good = spare <= BATCH && frames_take(f, frames, spare, false);
    if (good)
        ulms_frames_give(f, frames, spare);
    return good;
}

void vmm_stock_give(struct vmm *v, struct vmm_stock *s) {
    for (int place = 0; place < VMM_PLACES; place++) {
        ulms_frames_give(&v->pool[place].frames, s->frame[place], s->count[place]);
        free(s->frame[place]);
    }
    *s = (struct vmm_stock){0};
}

bool vmm_stock_take(struct vmm *v, struct vmm_stock *s, size_t n, size_t device, size_t spare) {
    *s = (struct vmm_stock){0};
    for (int place = 0; place < VMM_PLACES; place++) {
        size_t wanted = place == VMM_DEVICE ? device : n - s->count[VMM_DEVICE];
        if (wanted > 0 && (s->frame[place] = calloc(wanted, sizeof(uint32_t))))
            s->count[place] = take_some(&v->pool[place].frames, s->frame[place], wanted);
    }
    if (s->count[VMM_DEVICE] + s->count[VMM_HOST] == n &&
        (s->count[VMM_HOST] == 0 || leaves(&v->pool[VMM_HOST].frames, spare)))
        return true;
    vmm_stock_give(v, s);
    return false;
}

/* To the pages from `first` on, as long as there are any. Returns the first page without. */
static size_t deal(struct vmm *v, struct vmm_range *r, size_t first, size_t end, struct vmm_stock *s,
                   enum vmm_place place) {
    size_t n = smaller(s->count[place], end - first);
    for (size_t i = first; i < first + n; i++) {
        r->page[i].frame[place] = s->frame[place][i - first];
        if (place == VMM_DEVICE)
            ulms_frames_hold(&v->pool[place].frames, r->page[i].frame[place], address(r, i), &r->page[i].claim);
    }
    s->count[place] -= n;
    if (s->count[place] > 0)
        memmove(s->frame[place], s->frame[place] + n, s->count[place] * sizeof(uint32_t));
    return first + n;
}

bool vmm_range_fill_from(struct vmm *v, struct vmm_range *r, size_t first, size_t n, struct vmm_stock *s) {
    size_t end = first + n, there = deal(v, r, first, end, s, VMM_DEVICE);
    deal(v, r, there, end, s, VMM_HOST);
    return (there == first || map_run(v, r, first, there - first, VMM_DEVICE)) &&
           (there == end || map_run(v, r, there, end - there, VMM_HOST));
}

/* Slots in the place of frames, which hold zeros. */
static bool fill_from_file(struct vmm *v, struct vmm_range *r, size_t first, size_t n) {
    bool good = v->beyond_host && !r->reserved;
    for (size_t i = first; good && i < first + n; i++) {
        vmm_page_file(v, &r->page[i], vmm_file_take(v));
        good = vmm_page_is_filed(&r->page[i]);
    }
    if (good)
        vmm_hold_places(v, r, first, n);
    return good;
}

bool vmm_range_fill(struct vmm *v, struct vmm_range *r, size_t first, size_t n, bool device, size_t spare) {
    struct vmm_stock s;
    bool stocked = vmm_stock_take(v, &s, n, device ? n : 0, spare),
         good = stocked && vmm_range_fill_from(v, r, first, n, &s);
    vmm_stock_give(v, &s);
    return stocked ? good : fill_from_file(v, r, first, n);
}

static void discard(struct vmm_range *r) {
    if (r)
        free(r->part);
    free(r);
}

static struct vmm_range *range_at(struct vmm *v, addr_t start, uint64_t bytes, bool reserved) {
    size_t pages = bytes / page_bytes;
    struct vmm_range *r = calloc(1, sizeof *r + pages * sizeof r->page[0]);
    if (!r || !(r->part = calloc(bytes / PAGE_LEAST, sizeof(struct vmm_part *)))) {
        discard(r);
        return NULL;
    }
    r->start = start;
    r->bytes = bytes;
    r->reserved = reserved;
    for (size_t i = 0; i < pages; i++)
        r->page[i] = EMPTY;
    if (range_enter(v, r))
        return r;
    discard(r);
    return NULL;
}

struct vmm_range *vmm_range_new(struct vmm *v, uint64_t bytes) {
    addr_t start = vmm_reserve(bytes);
    struct vmm_range *r = start ? range_at(v, start, bytes, false) : NULL;
    if (start && !r)
        vmm_unreserve(start, bytes);
    return r;
}

struct vmm_range *vmm_range_of_program(struct vmm *v, addr_t start, uint64_t bytes) {
    return range_at(v, start, bytes, true);
}

void vmm_range_delete(struct vmm *v, struct vmm_range *r) {
    take_out(v, r);
    if (!r->reserved)
        vmm_unreserve(r->start, r->bytes);
    free(r->seals);
    discard(r);
}
