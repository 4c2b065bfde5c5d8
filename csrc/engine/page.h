/* The page table: address → page. Pages are numbered by address / page size, and lie in leaves that stay, so that a
 * pointer to a page is good for the life of the table, and what is known of a number outlives the memory there. */
#ifndef ULMS_ENGINE_PAGE_H
#define ULMS_ENGINE_PAGE_H

#include "types.h"

struct operation;

enum page_state { PAGE_ABSENT, PAGE_FILLING, PAGE_RESIDENT, PAGE_EVICTING };

/* Why an absent page is demanded (fill_demand.c): an operation waits for it; or it is predicted, and dead, or live, or
 * rests. */
enum page_demand { DEMAND_NONE, DEMAND_SURE, DEMAND_PLACE, DEMAND_BYTES, DEMAND_RESTING };

/* Live pages that have a frame to stay in, or that a waiting operation needs here; the other live ones; dead resident
 * pages that no waiting operation touches; the other dead ones, and what is no memory. */
enum page_count { COUNT_DEAD, COUNT_IDLE, COUNT_HERE, COUNT_AWAY, COUNTS };

struct page;

/* Of a page in a heap of evict_queue.c. */
struct heap_node {
    uint64_t next, touched; /* what its order goes by, as it was when it was last settled */
    struct page *child, *sibling;
    struct page *before; /* that has it as child or sibling */
};

/* What every touch looks at lies first. */
struct page {
    uint64_t number;
    uint64_t touched;         /* serial of the last operation that touches it; 0: none */
    struct operation *waiter; /* the first waiting operation that touches it */
    uint32_t entry;           /* place in the operation that was gathered last of those that touch it */
    uint32_t generation;      /* counts how often the memory here went; operations hold pages by it */
    uint32_t pins;

    /* By number, like seen, record, died and born: they outlive the memory. */
    uint32_t epoch; /* of the prediction; another than the track's: next is unknown */
    uint64_t next;  /* position of the predicted next touch; 0: unknown */

    uint8_t state;
    uint8_t demand;
    uint8_t count;    /* of enum page_count, as it was when it was last settled */
    uint8_t failures; /* moves that failed, in a row */
    uint8_t heap;     /* of evict_queue.c, from 1; 0: in none */
    bool allocated;   /* there is memory of the program */
    bool live;
    bool dirty;
    bool untouched; /* filled, and not touched since */
    bool in_place;  /* it left so that kernels may use it where it lies */
    bool rests;     /* and they do: as it was when it was last settled */
    bool sparse;    /* for the operation of its record */
    bool marked;

    struct page *marked_next; /* list of evict_queue.c */
    uint64_t seen;            /* position in the history of the last touch; 0: none */
    uint64_t record;          /* number of its record + 1 */
    uint64_t died;            /* serial issued last when it died last by a block or a free; 0: never */
    uint64_t born;            /* position of the last first touch behind that; 0: none */
    struct heap_node node;
    uint64_t move;   /* id of the move under way */
    uint32_t blocks; /* of the framework's that overlap it */
    uint32_t window; /* operations of the fill window that touch it */
};

enum { LEAF_BITS = 9, LEAF_PAGES = 1 << LEAF_BITS };

struct leaf {
    uint64_t number;
    struct page page[LEAF_PAGES];
};

struct page_table {
    struct leaf **slots; /* open addressing by leaf number */
    size_t capacity;
    size_t count;
    struct leaf *last;  /* looked at last */
    uint64_t low, high; /* every number with a page lies in [low, high); low >= high: there is none */
};

void page_table_free(struct page_table *t);
/* Makes pages for [first, first + count). False: no memory, nothing changed that can be seen. */
bool page_make(struct page_table *t, uint64_t first, uint64_t count);
struct leaf *page_leaf(struct page_table *t, uint64_t number);
struct page *page_walk_far(struct page_table *t, uint64_t *number, uint64_t last);

/* The page of that number; NULL when there has never been memory near it. */
static inline struct page *page_find(struct page_table *t, uint64_t number) {
    struct leaf *leaf = t->last;
    if (!leaf || leaf->number != number >> LEAF_BITS)
        leaf = page_leaf(t, number >> LEAF_BITS);
    return leaf ? &leaf->page[number & (LEAF_PAGES - 1)] : NULL;
}

/* The first allocated page in [*number, last]; NULL: none. *number is set to the one after it. */
static inline struct page *page_walk(struct page_table *t, uint64_t *number, uint64_t last) {
    if (*number > last)
        return NULL;
    struct page *p = page_find(t, *number);
    if (!p || !p->allocated)
        return page_walk_far(t, number, last);
    ++*number;
    return p;
}

#endif
