/* Operations that were issued and have not retired, by ticket. Under the device's lock. */
#include <stdlib.h>

#include "backend/pager/window.h"

enum { WINDOW_MAX = 1 << 20 };

static struct pager_operation *slot(const struct pager_window *w, uint64_t ticket) {
    return &w->ring[ticket & (w->capacity - 1)];
}

static bool grow(struct pager_window *w) {
    struct pager_window larger = *w;
    larger.capacity = w->capacity ? 2 * w->capacity : 1024;
    if (larger.capacity > WINDOW_MAX || !(larger.ring = calloc(larger.capacity, sizeof *larger.ring)))
        return false;
    for (uint64_t t = w->oldest; t < w->next; t++)
        *slot(&larger, t) = *slot(w, t);
    free(w->ring);
    *w = larger;
    return true;
}

uint64_t pager_window_issue(struct pager_window *w, uint64_t serial) {
    if (!w->next)
        w->oldest = w->next = 1;
    if (w->next + 1 - w->oldest > w->capacity && !grow(w))
        return 0;
    w->last = serial ? serial : w->last;
    *slot(w, w->next) = (struct pager_operation){.stage = PAGER_ISSUED, .known = serial != 0, .serial = w->last};
    return w->next++;
}

static bool holds(const struct pager_window *w, uint64_t ticket) {
    return ticket >= w->oldest && ticket < w->next;
}

void pager_window_set_opaque(struct pager_window *w, uint64_t ticket) {
    if (!holds(w, ticket))
        return;
    w->opaque += !slot(w, ticket)->opaque;
    slot(w, ticket)->opaque = true;
}

void pager_window_mark(struct pager_window *w, uint64_t ticket, CUevent event) {
    if (!holds(w, ticket))
        return;
    slot(w, ticket)->stage = PAGER_MARKED;
    slot(w, ticket)->event = event;
}

bool pager_window_share(struct pager_window *w, uint64_t ticket, uint32_t others) {
    bool shares = holds(w, ticket) && slot(w, ticket)->stage != PAGER_RETIRED;
    if (shares)
        slot(w, ticket)->others += others;
    return shares;
}

uint64_t pager_window_retire(struct pager_window *w, uint64_t ticket) {
    if (!holds(w, ticket) || slot(w, ticket)->stage == PAGER_RETIRED)
        return 0;
    struct pager_operation *o = slot(w, ticket);
    if (o->others > 0) {
        o->others--;
        return 0;
    }
    uint64_t serial = o->known ? o->serial : 0;
    o->stage = PAGER_RETIRED;
    w->opaque -= o->opaque;
    o->event = NULL; /* it serves again */
    while (w->oldest < w->next && slot(w, w->oldest)->stage == PAGER_RETIRED)
        w->oldest++;
    return serial;
}

struct pager_operation pager_window_find(const struct pager_window *w, uint64_t serial) {
    uint64_t low = w->oldest, high = w->next;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (slot(w, middle)->serial < serial)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = holds(w, low) && slot(w, low)->known && slot(w, low)->serial == serial;
    return found ? *slot(w, low) : (struct pager_operation){.stage = PAGER_RETIRED};
}
