/* A binary heap of the pages that may leave, the first to leave on top. A page that changes is only marked; the heap is
 * put in order when somebody asks, so that operations cost nothing here while nothing has to leave. */
#include <stdlib.h>

#include "engine/engine.h"
#include "ledger/check.h"

bool frames_reserve(struct frames *f, uint64_t pages) {
    if (pages <= f->capacity)
        return true;
    size_t capacity = f->capacity ? f->capacity : 256;
    while (capacity < pages)
        capacity *= 2;
    struct frame *heap = realloc(f->heap, capacity * sizeof(*heap));
    if (!heap)
        return false;
    f->heap = heap;
    f->capacity = capacity;
    return true;
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

static struct frame frame_of(const struct ulms_engine *e, struct page *p) {
    if (!e->policy->held)
        return (struct frame){TIME_UNKNOWN, p->touched, p};
    return (struct frame){page_time(e, p), (uint64_t)p->live << 63 | p->touched, p};
}

static bool leaves_before(const struct frame *a, const struct frame *b) {
    if (a->next != b->next)
        return a->next > b->next;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    return a->page->number < b->page->number;
}

static void put(struct frames *f, size_t i, struct frame x) {
    f->heap[i] = x;
    x.page->frame = (uint32_t)i + 1;
}

static size_t up(struct frames *f, size_t i) {
    struct frame x = f->heap[i];
    for (; i > 0 && leaves_before(&x, &f->heap[(i - 1) / 2]); i = (i - 1) / 2)
        put(f, i, f->heap[(i - 1) / 2]);
    put(f, i, x);
    return i;
}

static void down(struct frames *f, size_t i) {
    struct frame x = f->heap[i];
    for (size_t child; (child = 2 * i + 1) < f->count; i = child) {
        if (child + 1 < f->count && leaves_before(&f->heap[child + 1], &f->heap[child]))
            child++;
        if (!leaves_before(&f->heap[child], &x))
            break;
        put(f, i, f->heap[child]);
    }
    put(f, i, x);
}

static void place(struct frames *f, size_t i) {
    down(f, up(f, i));
}

static void settle_frames(struct ulms_engine *e) {
    struct frames *f = &e->frames;
    bool all = f->stale || f->marks > f->count / 4;
    while (f->marked) {
        struct page *p = f->marked;
        f->marked = p->marked_next;
        p->marked = false;
        if (frames_may_leave(p)) {
            if (p->frame == 0)
                p->frame = (uint32_t)++f->count;
            put(f, p->frame - 1, frame_of(e, p));
            if (!all)
                place(f, p->frame - 1);
        } else if (p->frame > 0) {
            size_t i = p->frame - 1;
            p->frame = 0;
            if (i != --f->count) {
                put(f, i, f->heap[f->count]);
                if (!all)
                    place(f, i);
            }
        }
    }
    f->marks = 0;
    if (f->stale)
        for (size_t i = 0; i < f->count; i++)
            f->heap[i] = frame_of(e, f->heap[i].page);
    if (all)
        for (size_t i = f->count / 2; i > 0; i--)
            down(f, i - 1);
    f->stale = false;
}

struct page *frames_first(struct ulms_engine *e) {
    struct frames *f = &e->frames;
    if (f->marked || f->stale)
        settle_frames(e);
    if (f->count == 0)
        return NULL;
    /* Nothing is wanted sooner than by the first waiting operation: where one of its pages is on top, all are. */
    struct operation *first = e->waiting.first;
    return first && f->heap[0].next == first->id.id ? NULL : f->heap[0].page;
}

void frames_check(struct ulms_engine *e) {
    struct frames *f = &e->frames;
    settle_frames(e);
    for (size_t i = 0; i < f->count; i++) {
        const struct frame *x = &f->heap[i];
        struct frame now = frame_of(e, x->page);
        INVARIANT(x->page->frame == i + 1 && frames_may_leave(x->page), "frame %zu", i);
        INVARIANT(x->next == now.next && x->rank == now.rank, "frame %zu changed unmarked", i);
        INVARIANT(i == 0 || !leaves_before(x, &f->heap[(i - 1) / 2]), "frame %zu leaves before its parent", i);
    }
}
