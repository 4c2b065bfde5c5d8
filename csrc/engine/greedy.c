#include "engine/greedy.h"

#include <stdlib.h>

enum { ABSENT, COMING, RESIDENT, LEAVING };

static const struct mover_step nothing = {PAGE_NONE, false};

/* --- who leaves --- */

static bool is_offered(const struct greedy *g, const struct heap *h, struct heap_entry e) {
    const struct greedy_page *p = &g->pages[e.item];
    return p->state == RESIDENT && p->dead == (h == &g->dead) && UINT64_MAX - p->need == e.key;
}

/* At most one entry a page is not stale, and there is room for two. */
static void drop_stale(struct greedy *g, struct heap *h) {
    size_t count = h->count;
    h->count = 0;
    for (size_t i = 0; i < count; i++)
        if (is_offered(g, h, h->entries[i]))
            heap_push(h, h->entries[i].key, h->entries[i].item);
}

static void offer(struct greedy *g, uint32_t page) {
    const struct greedy_page *p = &g->pages[page];
    struct heap *h = p->dead ? &g->dead : &g->live;
    if (h->count == 2 * (size_t)g->period->pages)
        drop_stale(g, h);
    heap_push(h, UINT64_MAX - p->need, page);
}

/* The farthest that is needed after the pages that are being brought. */
static uint32_t farthest(struct greedy *g, struct heap *h) {
    while (h->count && !is_offered(g, h, h->entries[0]))
        heap_pop(h);
    if (!h->count || UINT64_MAX - h->entries[0].key <= g->ahead)
        return PAGE_NONE;
    return heap_pop(h).item;
}

/* --- who comes --- */

/* The first absent or leaving page in the order of need, within a period. */
static uint32_t wanted(struct greedy *g) {
    const struct period *p = g->period;
    while (g->ahead < g->operation + p->operations) {
        uint32_t k = (uint32_t)(g->ahead % p->operations);
        for (; g->touch < p->first[k + 1]; g->touch++)
            if (g->pages[p->page[g->touch]].state != RESIDENT && g->pages[p->page[g->touch]].state != COMING)
                return p->page[g->touch];
        g->ahead++;
        g->touch = p->first[g->ahead % p->operations];
    }
    return PAGE_NONE;
}

static struct mover_step in(void *self, bool bytes) {
    struct greedy *g = self;
    uint32_t page = wanted(g);
    if (page == PAGE_NONE || g->pages[page].state == LEAVING || !g->frames || !(bytes || g->pages[page].dead))
        return nothing;
    g->pages[page].state = COMING;
    g->frames--;
    return (struct mover_step){page, !g->pages[page].dead};
}

static struct mover_step out(void *self, bool bytes) {
    struct greedy *g = self;
    uint32_t page = wanted(g);
    if (page == PAGE_NONE || g->pages[page].state == LEAVING || g->frames)
        return nothing;
    page = farthest(g, &g->dead);
    if (page == PAGE_NONE && bytes)
        page = farthest(g, &g->live);
    if (page == PAGE_NONE)
        return nothing;
    g->pages[page].state = LEAVING;
    return (struct mover_step){page, g->pages[page].dirty};
}

static void came(void *self, uint32_t page) {
    struct greedy *g = self;
    struct greedy_page *p = &g->pages[page];
    p->state = RESIDENT;
    p->dirty = false;
    g->missing -= p->need == g->operation;
    offer(g, page);
}

static void left(void *self, uint32_t page) {
    struct greedy *g = self;
    g->pages[page].state = ABSENT;
    g->pages[page].dirty = false;
    g->frames++;
}

/* --- operations --- */

static void wait_for_pages(struct greedy *g) {
    const struct period *p = g->period;
    uint32_t k = (uint32_t)(g->operation % p->operations);
    g->missing = 0;
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++)
        g->missing += g->pages[p->page[i]].state != RESIDENT;
    if (g->ahead < g->operation) {
        g->ahead = g->operation;
        g->touch = p->first[k];
    }
}

static bool start(void *self) {
    return !((const struct greedy *)self)->missing;
}

static void retired(void *self) {
    struct greedy *g = self;
    const struct period *p = g->period;
    uint32_t k = (uint32_t)(g->operation % p->operations);
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++) {
        struct greedy_page *one = &g->pages[p->page[i]];
        bool wrote = (p->does[i] & PERIOD_WRITES) || one->dead;
        one->dead = p->does[i] & PERIOD_DIES;
        one->dirty = !one->dead && (one->dirty || wrote);
        one->need = g->operation + period_gap(p, i);
        offer(g, p->page[i]);
    }
    g->operation++;
    wait_for_pages(g);
}

bool greedy_open(struct greedy *g, const struct period *period, uint32_t budget) {
    *g = (struct greedy){.period = period, .pages = calloc(period->pages, sizeof *g->pages), .frames = budget};
    size_t room = 2 * (size_t)period->pages;
    if (!g->pages || !heap_open(&g->live, room) || !heap_open(&g->dead, room))
        return false;
    for (uint32_t i = period->touches; i-- > 0;) {
        struct greedy_page *one = &g->pages[period->page[i]];
        one->need = period->operation[i];
        one->dead = period->does[period->previous[i]] & PERIOD_DIES;
    }
    wait_for_pages(g);
    return true;
}

void greedy_close(struct greedy *g) {
    free(g->pages);
    g->pages = NULL;
    heap_close(&g->live);
    heap_close(&g->dead);
}

struct mover greedy_mover(struct greedy *g) {
    return (struct mover){g, start, retired, out, in, left, came};
}
