/* The state of managed pages; only managed.c and advise.c look inside. */
#ifndef EMU_PAGES_H
#define EMU_PAGES_H

#include "memory.h"

/* A granule of a device that holds a page. */
struct frame {
    struct page *page;
    struct device *device;
    bool hidden;                 /* its page came to a kernel that has no address of the area among its arguments */
    struct frame *next;          /* the page's other frames: a page that is mostly read may be in several places */
    struct frame *older, *newer; /* by last use, on its device */
};

struct page {
    uint64_t start, bytes;
    struct frame *frames;
    bool on_host; /* the host's copy is valid */
    bool dead;    /* discarded, and not written since */
    bool read_mostly;
    int preferred, last_prefetch;
    unsigned accessed_by;
    uint64_t toucher;  /* the operation that touched it last (emu_launch.toucher) */
    uint64_t comes_at; /* modelled time, ns: who uses it earlier waits for its bytes */
};

struct pages {
    uint64_t count;
    struct page page[];
};

extern pthread_mutex_t pages_lock; /* guards all pages, frames and devices' use */

/* For the pages of [start, end): for (p = page_first(a, start); p < page_after(a, end); p++). */
static inline struct page *page_first(const struct area *a, uint64_t start) {
    return &a->pages->page[(start - a->start) / GRANULE];
}

static inline struct page *page_after(const struct area *a, uint64_t end) {
    return &a->pages->page[(end - a->start + GRANULE - 1) / GRANULE];
}

/* Only `keep` (NULL: the host's copy) remains valid. Under pages_lock. */
void page_keep_only(struct page *p, const struct frame *keep);

#endif
