#include "managed.h"

#include "cost.h"
#include "launch.h"
#include "pages.h"
#include "shared.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t managed_gate = PTHREAD_MUTEX_INITIALIZER;

pthread_mutex_t pages_lock = PTHREAD_MUTEX_INITIALIZER;
static struct frame *oldest[DEVICES_MAX], *newest[DEVICES_MAX];
static struct emu_traffic traffic;
static uint64_t touchers;                  /* operations that touched pages */
static uint64_t touched_most[DEVICES_MAX]; /* pages, by one of them */

/* --- frames --- */

static void unlink_by_use(struct frame *f) {
    int d = f->device->ordinal;
    *(f->older ? &f->older->newer : &oldest[d]) = f->newer;
    *(f->newer ? &f->newer->older : &newest[d]) = f->older;
}

static void link_as_newest(struct frame *f) {
    int d = f->device->ordinal;
    f->newer = NULL;
    f->older = newest[d];
    *(f->older ? &f->older->newer : &oldest[d]) = f;
    newest[d] = f;
}

/* Discarded pages keep their frames, but hold nothing. */
static void set_dead(struct page *p, bool dead) {
    int64_t bytes = (p->dead - dead) * (int64_t)GRANULE;
    for (struct frame *f = p->frames; f && bytes; f = f->next)
        shared_change_pages(f->device->ordinal, f->hidden ? 0 : bytes);
    p->dead = dead;
}

static void set_hidden(struct frame *f, bool hidden) {
    int64_t bytes = (f->hidden - hidden) * (int64_t)GRANULE;
    shared_change_pages(f->device->ordinal, f->page->dead ? 0 : bytes);
    f->hidden = hidden;
}

static struct frame *frame_on(const struct page *p, const struct device *d) {
    struct frame *f = p->frames;
    while (f && f->device != d)
        f = f->next;
    return f;
}

static void frame_free(struct frame *f) {
    struct frame **at = &f->page->frames;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    unlink_by_use(f);
    device_give(f->device, GRANULE);
    shared_change_pages(f->device->ordinal, f->page->dead || f->hidden ? 0 : -(int64_t)GRANULE);
    free(f);
}

/* The page leaves the device. Bytes that had to be moved to the host for it. */
static uint64_t leave(struct frame *f) {
    struct page *p = f->page;
    uint64_t moved = 0;
    if (p->on_host || f->next || p->frames != f) {
        traffic.dropped += p->bytes; /* valid elsewhere */
    } else if (p->dead) {
        traffic.dropped += p->bytes;
        set_dead(p, false);
    } else {
        p->on_host = true;
        moved = p->bytes;
    }
    frame_free(f);
    return moved;
}

/* Takes `bytes` of the device, for which pages of this process may go. Adds to *moved what went out for it. */
static bool make_room(struct device *d, uint64_t bytes, uint64_t *moved) {
    while (!shared_take(d->ordinal, bytes, d->memory)) {
        if (!oldest[d->ordinal])
            return false;
        *moved += leave(oldest[d->ordinal]);
    }
    return true;
}

static struct frame *frame_make(struct page *p, struct device *d, uint64_t *evicted) {
    struct frame *f = malloc(sizeof *f);
    if (!f || !make_room(d, GRANULE, evicted)) {
        free(f);
        return NULL;
    }
    *f = (struct frame){.page = p, .device = d, .next = p->frames};
    p->frames = f;
    shared_change_pages(d->ordinal, p->dead ? 0 : (int64_t)GRANULE);
    link_as_newest(f);
    return f;
}

bool device_take(struct device *d, uint64_t bytes) {
    uint64_t moved = 0;
    pthread_mutex_lock(&pages_lock);
    bool room = bytes <= d->memory && make_room(d, bytes, &moved);
    traffic.evicted += moved;
    pthread_mutex_unlock(&pages_lock);
    cost_call((double)moved / rate(RATE_EVICT));
    return room;
}

/* --- areas --- */

bool managed_make(struct area *a) {
    uint64_t count = (a->bytes + GRANULE - 1) / GRANULE;
    void *at = (void *)(uintptr_t)a->start;
    struct pages *pages = calloc(1, sizeof *pages + count * sizeof *pages->page);
    if (!pages || mmap(at, count * GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                       memory_file(), (off_t)(a->start - memory_base())) == MAP_FAILED) {
        free(pages);
        return false;
    }
    madvise(at, count * GRANULE, MADV_DONTFORK);
    pages->count = count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = i * GRANULE, left = a->bytes - offset;
        pages->page[i] = (struct page){.start = a->start + offset,
                                       .bytes = left < GRANULE ? left : GRANULE,
                                       .preferred = EMU_UNKNOWN,
                                       .last_prefetch = EMU_UNKNOWN};
    }
    a->pages = pages;
    atomic_fetch_add(&shared_life()->managed, 1);
    return true;
}

void managed_dispose(struct area *a) {
    pthread_mutex_lock(&pages_lock);
    for (uint64_t i = 0; i < a->pages->count; i++)
        while (a->pages->page[i].frames)
            frame_free(a->pages->page[i].frames);
    pthread_mutex_unlock(&pages_lock);
    free(a->pages);
    atomic_fetch_sub(&shared_life()->managed, 1);
    mmap((void *)(uintptr_t)a->start, whole_granules(a->bytes), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* --- use --- */

/* Stores of the CPU are not seen, but the first leaves a page in what this process has mapped. */
static bool touched_by_host(const struct page *p) {
    static int map = -1;
    uint64_t entry[GRANULE >> 12];
    const uint64_t unit = (uint64_t)sysconf(_SC_PAGESIZE), present = 1ull << 63;
    if (map < 0)
        map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t n =
        pread(map, entry, (p->bytes + unit - 1) / unit * sizeof *entry, (off_t)(p->start / unit * sizeof *entry));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *entry; i++)
        if (entry[i] & present)
            return true;
    return false;
}

/* Somewhere it has a valid copy. */
static bool populated(struct page *p) {
    p->on_host = p->on_host || (!p->frames && touched_by_host(p));
    return p->on_host || p->frames;
}

void page_keep_only(struct page *p, const struct frame *keep) {
    for (struct frame *f = p->frames, *next; f; f = next) {
        next = f->next;
        if (f != keep)
            frame_free(f);
    }
    p->on_host = !keep;
}

static bool stays_where_it_is(struct page *p, const struct device *d) {
    bool preferred_there = p->preferred != EMU_UNKNOWN && p->preferred != d->ordinal &&
                           (p->preferred == EMU_HOST ? p->on_host : p->frames != NULL);
    return preferred_there || (populated(p) && p->accessed_by & 1u << d->ordinal);
}

/* Brings the page to the device. Bytes moved; nothing happens when there is no room. */
static uint64_t arrive(struct page *p, struct device *d, bool as_copy, uint64_t *evicted) {
    bool had = populated(p), dead = p->dead;
    struct frame *f = frame_make(p, d, evicted);
    if (!f)
        return 0;
    if (!as_copy)
        page_keep_only(p, f);
    return had && !dead ? p->bytes : 0;
}

/* In whole pages, each once. */
static void count_touch(struct page *p, struct emu_launch *r) {
    uint64_t *most = &touched_most[r->device->ordinal];
    r->toucher = r->toucher ? r->toucher : ++touchers;
    r->touched += p->toucher != r->toucher;
    p->toucher = r->toucher;
    *most = r->touched > *most ? r->touched : *most;
}

static void touch_page(struct page *p, struct emu_launch *r, uint64_t bytes, int mode, bool hidden) {
    struct device *d = r->device;
    uint64_t evicted = 0;
    if (!populated(p) && p->preferred == EMU_HOST && !frame_on(p, d))
        p->on_host = true;
    if (!frame_on(p, d) && !stays_where_it_is(p, d)) {
        uint64_t moved = arrive(p, d, p->read_mostly && !(mode & EMU_WRITE), &evicted);
        traffic.faults++;
        traffic.fault_bytes += moved;
        r->fault_bytes += moved;
        if (hidden && frame_on(p, d))
            set_hidden(frame_on(p, d), true);
    }
    struct frame *f = frame_on(p, d);
    if (f && !hidden)
        set_hidden(f, false);
    r->waits_until = f && p->comes_at > r->waits_until ? p->comes_at : r->waits_until;
    if (f) {
        unlink_by_use(f);
        link_as_newest(f);
        r->device_bytes += (mode == EMU_UPDATE ? 2 : 1) * bytes;
    } else {
        if (!populated(p))
            p->on_host = true;
        traffic.in_place += bytes;
        r->host_read += mode & EMU_READ ? bytes : 0;
        r->host_written += mode & EMU_WRITE ? bytes : 0;
    }
    if (mode & EMU_WRITE) {
        set_dead(p, false);
        if (f || p->on_host)
            page_keep_only(p, f);
    }
    traffic.evicted += evicted;
    r->evict_bytes += evicted;
}

void managed_touch(const struct area *a, uint64_t start, uint64_t end, struct emu_launch *r, int mode) {
    bool hidden = r->kernel && !launch_shows(r->kernel, a->start, a->start + a->bytes);
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++) {
        uint64_t from = p->start > start ? p->start : start;
        uint64_t to = p->start + p->bytes < end ? p->start + p->bytes : end;
        touch_page(p, r, to - from, mode, hidden);
        if (!hidden)
            count_touch(p, r);
    }
    pthread_mutex_unlock(&pages_lock);
}

/* The page goes to the host; one that is mostly read stays on the device, too. Bytes moved. */
static uint64_t go_home(struct page *p) {
    uint64_t moved = 0;
    if (p->read_mostly && p->frames) {
        moved = p->on_host || p->dead ? 0 : p->bytes;
        p->on_host = true;
        return moved;
    }
    while (p->frames)
        moved += leave(p->frames);
    return moved;
}

void managed_move(const struct area *a, uint64_t start, uint64_t end, struct device *to, struct emu_launch *r) {
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++) {
        uint64_t evicted = 0, moved = 0;
        p->last_prefetch = to ? to->ordinal : EMU_HOST;
        if (!to) {
            moved = go_home(p);
            traffic.prefetch_out += moved;
        } else if (!frame_on(p, to)) {
            moved = arrive(p, to, p->read_mostly, &evicted);
            traffic.prefetch_in += moved;
        } else {
            set_hidden(frame_on(p, to), false);
        }
        traffic.evicted += evicted;
        r->evict_bytes += evicted;
        r->prefetch_bytes += moved;
        if (moved || !to)
            p->comes_at = to ? cost_crossed(r) : 0;
    }
    pthread_mutex_unlock(&pages_lock);
}

uint64_t managed_absent(const struct area *a, uint64_t start, uint64_t end, const struct device *to) {
    uint64_t absent = 0;
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++) {
        bool there = to ? frame_on(p, to) != NULL : !p->frames || p->on_host;
        absent += there || !populated(p) || p->dead ? 0 : p->bytes;
    }
    pthread_mutex_unlock(&pages_lock);
    return absent;
}

void managed_discard(const struct area *a, uint64_t start, uint64_t end) {
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++)
        if (p->start >= start && p->start + p->bytes <= end && populated(p)) {
            memset((void *)(uintptr_t)(p->start + (uint64_t)alias), 0xdd, p->bytes); /* rubbish, not luck */
            set_dead(p, true);
        }
    pthread_mutex_unlock(&pages_lock);
}

/* --- what tests ask --- */

void managed_count_copy(uint64_t in, uint64_t out) {
    pthread_mutex_lock(&pages_lock);
    traffic.copied_in += in;
    traffic.copied_out += out;
    pthread_mutex_unlock(&pages_lock);
}

void managed_count_in_place(uint64_t bytes) {
    pthread_mutex_lock(&pages_lock);
    traffic.in_place += bytes;
    pthread_mutex_unlock(&pages_lock);
}

EXPORT uint64_t emu_touched_peak(int device) {
    pthread_mutex_lock(&pages_lock);
    uint64_t bytes = device_valid(device) ? touched_most[device] * GRANULE : 0;
    pthread_mutex_unlock(&pages_lock);
    return bytes;
}

EXPORT void emu_traffic(struct emu_traffic *now) {
    pthread_mutex_lock(&pages_lock);
    *now = traffic;
    pthread_mutex_unlock(&pages_lock);
}

static bool read_place(struct area *a, uint64_t start, uint64_t end, void *place) {
    if (a->kind == AREA_MANAGED) {
        struct page *p = page_first(a, start);
        *(int *)place = !populated(p) ? EMU_NOWHERE : p->frames ? p->frames->device->ordinal : EMU_HOST;
    }
    return true;
}

EXPORT int emu_page(uint64_t address) {
    int place = EMU_UNKNOWN;
    area_visit(address, 1, NULL, read_place, &place);
    return place;
}

static bool come_home(struct area *a, uint64_t start, uint64_t end, void *nobody) {
    if (a->kind == AREA_MANAGED)
        managed_move(a, start, end, NULL, nobody);
    return true;
}

EXPORT void emu_touch_from_host(uint64_t address, uint64_t bytes) {
    struct emu_launch nobody = {.name = "host"};
    area_visit(address, bytes, NULL, come_home, &nobody);
}
