/* Two pairing heaps of the pages that may leave, dead and live ones, each with the first to leave on top. A page that
 * changes is only marked; the heaps are put in order when somebody asks, so that operations cost nothing here while
 * nothing has to leave. */
#include "engine/engine.h"
#include "ledger/check.h"

enum { HEAP_DEAD = 1, HEAP_LIVE };

/* Dead pages are before all others only where they move without bytes ahead of need. */
static uint8_t heap_of(const struct ulms_engine *e, bool live) {
    return live || !e->policy->held ? HEAP_LIVE : HEAP_DEAD;
}

static void take_key(const struct ulms_engine *e, struct page *p) {
    p->frame.next = page_leave_time(e, p); /* unknown with the ordered policies */
    p->frame.touched = p->touched;
}

static bool leaves_before(const struct page *a, const struct page *b) {
    if (a->frame.next != b->frame.next)
        return a->frame.next > b->frame.next;
    if (a->frame.touched != b->frame.touched)
        return a->frame.touched < b->frame.touched;
    return a->number < b->number;
}

/* --- the heap: a page leaves before its children; a page on top has neither sibling nor one before it --- */

/* What stands in the two as sibling and before is not looked at: whoever puts the top one somewhere sets it. */
static inline struct page *meld(struct page *a, struct page *b) {
    struct page *top = leaves_before(b, a) ? b : a, *under = top == a ? b : a;
    under->frame.before = top;
    under->frame.sibling = top->frame.child;
    if (top->frame.child)
        top->frame.child->frame.before = under;
    top->frame.child = under;
    return top;
}

/* Puts a page on the heap, or all of a heap. */
static void put_on(struct page **heap, struct page *p) {
    p = *heap ? meld(*heap, p) : p;
    p->frame.sibling = p->frame.before = NULL;
    *heap = p;
}

/* Of siblings: in pairs, then from the last pair back to the first. */
static struct page *meld_all(struct page *first) {
    struct page *pairs = NULL, *top;
    for (struct page *a = first, *b, *rest; a; a = rest) {
        b = a->frame.sibling;
        rest = b ? b->frame.sibling : NULL;
        a = b ? meld(a, b) : a;
        a->frame.sibling = pairs;
        pairs = a;
    }
    top = pairs;
    for (struct page *p = top ? top->frame.sibling : NULL, *rest; p; p = rest) {
        rest = p->frame.sibling;
        top = meld(top, p);
    }
    if (top)
        top->frame.sibling = top->frame.before = NULL;
    return top;
}

static void take_out(struct page **heap, struct page *p) {
    struct page *before = p->frame.before, *sibling = p->frame.sibling;
    struct page *children = meld_all(p->frame.child);
    if (before) {
        *(before->frame.child == p ? &before->frame.child : &before->frame.sibling) = sibling;
        if (sibling)
            sibling->frame.before = before;
        if (children)
            put_on(heap, children);
    } else
        *heap = children;
    p->frame.child = p->frame.sibling = p->frame.before = NULL;
}

/* With the keys of now. */
static void put_in_order(const struct ulms_engine *e, struct page **heap) {
    for (struct page *p = *heap, *last = p; p; p = p->frame.sibling) {
        last->frame.sibling = p->frame.child;
        while (last->frame.sibling)
            last = last->frame.sibling;
        p->frame.child = NULL;
        take_key(e, p);
    }
    *heap = meld_all(*heap);
}

/* --- pages that change: marked when they are touched, so that mostly the next one leaves later and goes on top --- */

static void settle_page(struct ulms_engine *e, struct page *p) {
    uint8_t was = p->heap, heap = frames_may_leave(p) ? heap_of(e, p->live) : 0;
    if (heap) {
        uint64_t next = p->frame.next, touched = p->frame.touched;
        take_key(e, p);
        if (was == heap && p->frame.next == next && p->frame.touched == touched)
            return;
    }
    if (was)
        take_out(&e->frames.first[was - 1], p);
    if (heap)
        put_on(&e->frames.first[heap - 1], p);
    p->heap = heap;
}

static void settle_frames(struct ulms_engine *e) {
    struct frames *f = &e->frames;
    for (int i = 0; f->stale && i < 2; i++)
        put_in_order(e, &f->first[i]);
    f->stale = false;
    for (struct page *p; (p = f->marked);) {
        f->marked = p->marked_next;
        p->marked = false;
        settle_page(e, p);
    }
}

static struct page *first_of(struct ulms_engine *e, bool live, uint64_t after) {
    if (e->frames.marked || e->frames.stale)
        settle_frames(e);
    struct page *p = e->frames.first[live];
    return p && p->frame.next > after ? p : NULL;
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
    uint64_t at = 0;
    for (struct page *p; (p = page_walk(&e->table, &at, UINT64_MAX));) {
        const struct frame *x = &p->frame;
        unsigned long long number = p->number;
        INVARIANT(p->heap == (frames_may_leave(p) ? heap_of(e, p->live) : 0), "page 0x%llx: heap %u", number, p->heap);
        if (!p->heap)
            continue;
        INVARIANT(x->before ? x->before->frame.child == p || x->before->frame.sibling == p
                            : e->frames.first[p->heap - 1] == p,
                  "page 0x%llx", number);
        for (const struct page *c = x->child; c; c = c->frame.sibling)
            INVARIANT(!leaves_before(c, p), "page 0x%llx leaves before its parent", number);
        struct frame was = *x;
        take_key(e, p);
        INVARIANT(x->next == was.next && x->touched == was.touched, "page 0x%llx changed unmarked", number);
    }
}
