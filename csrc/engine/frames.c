/* Two binary heaps of the pages that may leave, dead and live ones, each with the first to leave on top. A page that
 * changes is only marked; the heaps are put in order when somebody asks, so that operations cost nothing here while
 * nothing has to leave. */
#include <stdlib.h>

#include "engine/engine.h"
#include "ledger/check.h"

static bool reserve(struct frame_heap *h, uint64_t pages) {
    if (pages <= h->capacity)
        return true;
    size_t capacity = h->capacity ? h->capacity : 256;
    while (capacity < pages)
        capacity *= 2;
    struct frame *frames = realloc(h->frames, capacity * sizeof(*frames));
    if (!frames)
        return false;
    h->frames = frames;
    h->capacity = capacity;
    return true;
}

bool frames_reserve(struct frames *f, uint64_t pages) {
    return reserve(&f->heaps[0], pages) && reserve(&f->heaps[1], pages);
}

void frames_free(struct frames *f) {
    free(f->heaps[0].frames);
    free(f->heaps[1].frames);
}

bool frames_may_leave(const struct page *p) {
    return p->state == PAGE_RESIDENT && p->pins == 0 && p->failures < FAILURES_MAX;
}

void frames_mark(struct ulms_engine *e, struct page *p) {
    if (p->marked)
        return;
    p->marked = true;
    p->marked_next = e->frames.marked;
    e->frames.marked = p;
    e->frames.marks++;
}

/* Dead pages are before all others only where they move without bytes ahead of need. */
static struct frame_heap *heap_of(struct ulms_engine *e, bool live) {
    return &e->frames.heaps[live || !e->policy->held];
}

static struct frame frame_of(const struct ulms_engine *e, struct page *p) {
    return (struct frame){e->policy->held ? page_time(e, p) : TIME_UNKNOWN, p->touched, p};
}

static bool leaves_before(const struct frame *a, const struct frame *b) {
    if (a->next != b->next)
        return a->next > b->next;
    if (a->touched != b->touched)
        return a->touched < b->touched;
    return a->page->number < b->page->number;
}

static void put(struct frame_heap *h, size_t i, struct frame x) {
    h->frames[i] = x;
    x.page->frame = (uint32_t)i + 1;
}

static size_t up(struct frame_heap *h, size_t i) {
    struct frame x = h->frames[i];
    for (; i > 0 && leaves_before(&x, &h->frames[(i - 1) / 2]); i = (i - 1) / 2)
        put(h, i, h->frames[(i - 1) / 2]);
    put(h, i, x);
    return i;
}

static void down(struct frame_heap *h, size_t i) {
    struct frame x = h->frames[i];
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && leaves_before(&h->frames[child + 1], &h->frames[child]))
            child++;
        if (!leaves_before(&h->frames[child], &x))
            break;
        put(h, i, h->frames[child]);
    }
    put(h, i, x);
}

static void remove_frame(struct frame_heap *h, struct page *p, bool in_order) {
    size_t i = p->frame - 1;
    p->frame = 0;
    if (i == --h->count)
        return;
    put(h, i, h->frames[h->count]);
    if (in_order)
        down(h, up(h, i));
}

static void settle_page(struct ulms_engine *e, struct page *p, bool in_order) {
    struct frame_heap *now = heap_of(e, p->live);
    if (p->frame > 0 && (!frames_may_leave(p) || now != heap_of(e, p->frame_live)))
        remove_frame(heap_of(e, p->frame_live), p, in_order);
    if (!frames_may_leave(p))
        return;
    if (p->frame == 0)
        p->frame = (uint32_t)++now->count;
    p->frame_live = p->live;
    put(now, p->frame - 1, frame_of(e, p));
    if (in_order)
        down(now, up(now, p->frame - 1));
}

static void settle_frames(struct ulms_engine *e) {
    struct frames *f = &e->frames;
    bool all = f->stale || f->marks > (f->heaps[0].count + f->heaps[1].count) / 4;
    while (f->marked) {
        struct page *p = f->marked;
        f->marked = p->marked_next;
        p->marked = false;
        settle_page(e, p, !all);
    }
    f->marks = 0;
    for (struct frame_heap *h = f->heaps; all && h < f->heaps + 2; h++) {
        for (size_t i = 0; f->stale && i < h->count; i++)
            h->frames[i] = frame_of(e, h->frames[i].page);
        for (size_t i = h->count / 2; i > 0; i--)
            down(h, i - 1);
    }
    f->stale = false;
}

static struct page *first_of(struct ulms_engine *e, bool live, uint64_t after) {
    const struct frame_heap *h = &e->frames.heaps[live];
    if (e->frames.marked || e->frames.stale)
        settle_frames(e);
    return h->count > 0 && h->frames[0].next > after ? h->frames[0].page : NULL;
}

struct page *frames_first_dead(struct ulms_engine *e, uint64_t after) {
    return first_of(e, false, after);
}

struct page *frames_first_live(struct ulms_engine *e, uint64_t after) {
    return first_of(e, true, after);
}

struct page *frames_first(struct ulms_engine *e, uint64_t after) {
    struct page *p = frames_first_dead(e, after);
    return p ? p : frames_first_live(e, after);
}

void frames_check(struct ulms_engine *e) {
    settle_frames(e);
    for (int live = 0; live < 2; live++) {
        struct frame_heap *h = &e->frames.heaps[live];
        for (size_t i = 0; i < h->count; i++) {
            const struct frame *x = &h->frames[i];
            struct frame now = frame_of(e, x->page);
            INVARIANT(x->page->frame == i + 1 && frames_may_leave(x->page), "frame %zu", i);
            INVARIANT(heap_of(e, x->page->live) == h, "frame %zu is in the wrong heap", i);
            INVARIANT(x->next == now.next && x->touched == now.touched, "frame %zu changed unmarked", i);
            INVARIANT(i == 0 || !leaves_before(x, &h->frames[(i - 1) / 2]), "frame %zu leaves before its parent", i);
        }
    }
}
