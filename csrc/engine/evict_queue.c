/* Two pairing heaps of the pages that may leave, dead and live ones, each with the first to leave on top. A page that
 * changes is only marked; the heaps are put in order when somebody asks, so that operations cost nothing here while
 * nothing has to leave. */
#include "base/invariant.h"
#include "engine/engine.h"

enum { HEAP_DEAD = 1, HEAP_LIVE };

static uint8_t heap_of(const struct page *p) {
    return !page_may_leave(p) ? 0 : p->live ? HEAP_LIVE : HEAP_DEAD;
}

static void take_key(const struct ulms_engine *e, struct page *p) {
    p->node.next = page_leave_time(e, p); /* unknown with the ordered policies */
    p->node.touched = p->touched;
}

static bool leaves_before(const struct page *a, const struct page *b) {
    if (a->node.next != b->node.next)
        return a->node.next > b->node.next;
    if (a->node.touched != b->node.touched)
        return a->node.touched < b->node.touched;
    return a->number < b->number;
}

/* --- the heap: a page leaves before its children; a page on top has neither sibling nor one before it --- */

/* What stands in the two as sibling and before is not looked at: whoever puts the top one somewhere sets it. */
static inline struct page *meld(struct page *a, struct page *b) {
    struct page *top = leaves_before(b, a) ? b : a, *under = top == a ? b : a;
    under->node.before = top;
    under->node.sibling = top->node.child;
    if (top->node.child)
        top->node.child->node.before = under;
    top->node.child = under;
    return top;
}

/* Puts a page on the heap, or all of a heap. */
static void put_on(struct page **heap, struct page *p) {
    p = *heap ? meld(*heap, p) : p;
    p->node.sibling = p->node.before = NULL;
    *heap = p;
}

/* Of siblings: in pairs, then from the last pair back to the first. */
static struct page *meld_all(struct page *first) {
    struct page *pairs = NULL, *top;
    for (struct page *a = first, *b, *rest; a; a = rest) {
        b = a->node.sibling;
        rest = b ? b->node.sibling : NULL;
        a = b ? meld(a, b) : a;
        a->node.sibling = pairs;
        pairs = a;
    }
    top = pairs;
    for (struct page *p = top ? top->node.sibling : NULL, *rest; p; p = rest) {
        rest = p->node.sibling;
        top = meld(top, p);
    }
    if (top)
        top->node.sibling = top->node.before = NULL;
    return top;
}

static void take_out(struct page **heap, struct page *p) {
    struct page *before = p->node.before, *sibling = p->node.sibling;
    struct page *children = meld_all(p->node.child);
    if (before) {
        *(before->node.child == p ? &before->node.child : &before->node.sibling) = sibling;
        if (sibling)
            sibling->node.before = before;
        if (children)
            put_on(heap, children);
    } else
        *heap = children;
    p->node.child = p->node.sibling = p->node.before = NULL;
}

/* With the keys of now. */
static void put_in_order(const struct ulms_engine *e, struct page **heap) {
    for (struct page *p = *heap, *last = p; p; p = p->node.sibling) {
        last->node.sibling = p->node.child;
        while (last->node.sibling)
            last = last->node.sibling;
        p->node.child = NULL;
        take_key(e, p);
    }
    *heap = meld_all(*heap);
}

/* --- pages that change: marked when they are touched, so that mostly the next one leaves later and goes on top --- */

static void settle_page(struct ulms_engine *e, struct page *p) {
    uint8_t was = p->heap, heap = heap_of(p);
    if (heap) {
        uint64_t next = p->node.next, touched = p->node.touched;
        take_key(e, p);
        if (was == heap && p->node.next == next && p->node.touched == touched)
            return;
    }
    if (was)
        take_out(&e->evict_queue.first[was - 1], p);
    if (heap)
        put_on(&e->evict_queue.first[heap - 1], p);
    p->heap = heap;
}

static void settle_leavers(struct ulms_engine *e) {
    struct evict_queue *l = &e->evict_queue;
    for (int i = 0; l->stale && i < 2; i++)
        put_in_order(e, &l->first[i]);
    l->stale = false;
    for (struct page *p; (p = l->marked);) {
        l->marked = p->marked_next;
        p->marked = false;
        settle_page(e, p);
    }
}

static struct page *first_of(struct ulms_engine *e, bool live, uint64_t after) {
    if (e->evict_queue.marked || e->evict_queue.stale)
        settle_leavers(e);
    struct page *p = e->evict_queue.first[live];
    return p && p->node.next > after ? p : NULL;
}

struct page *evict_queue_first_dead(struct ulms_engine *e, uint64_t after) {
    return first_of(e, false, after);
}

struct page *evict_queue_first_live(struct ulms_engine *e, uint64_t after) {
    return first_of(e, true, after);
}

struct page *evict_queue_first(struct ulms_engine *e, uint64_t after) {
    struct page *p = evict_queue_first_dead(e, after);
    return p ? p : evict_queue_first_live(e, after);
}

void evict_queue_check(struct ulms_engine *e) {
    settle_leavers(e);
    uint64_t at = 0;
    for (struct page *p; (p = page_walk(&e->table, &at, UINT64_MAX));) {
        const struct heap_node *x = &p->node;
        unsigned long long number = p->number;
        INVARIANT(p->heap == heap_of(p), "page 0x%llx: heap %u", number, p->heap);
        if (!p->heap)
            continue;
        INVARIANT(x->before ? x->before->node.child == p || x->before->node.sibling == p
                            : e->evict_queue.first[p->heap - 1] == p,
                  "page 0x%llx", number);
        for (const struct page *c = x->child; c; c = c->node.sibling)
            INVARIANT(!leaves_before(c, p), "page 0x%llx leaves before its parent", number);
        struct heap_node was = *x;
        take_key(e, p);
        INVARIANT(x->next == was.next && x->touched == was.touched, "page 0x%llx changed unmarked", number);
    }
}
