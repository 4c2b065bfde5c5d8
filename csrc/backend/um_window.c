/* Operations that were issued and have not retired, by serial. Under the device's lock. */
#include <stdlib.h>

#include "backend/um.h"

enum { WINDOW_MAX = 1 << 20 };

static struct um_operation *slot(const struct um_window *w, uint64_t serial) {
    return &w->ring[serial & (w->capacity - 1)];
}

static bool grow(struct um_window *w) {
    struct um_window larger = *w;
    larger.capacity = w->capacity ? 2 * w->capacity : 1024;
    if (larger.capacity > WINDOW_MAX || !(larger.ring = calloc(larger.capacity, sizeof *larger.ring)))
        return false;
    for (uint64_t s = w->oldest; s < w->next; s++)
        *slot(&larger, s) = *slot(w, s);
    free(w->ring);
    *w = larger;
    return true;
}

/* The engine gives out serials one after the other. */
bool um_window_issue(struct um_window *w, uint64_t serial) {
    if (!w->next)
        w->oldest = w->next = serial;
    if (serial + 1 - w->oldest > w->capacity && !grow(w))
        return false;
    *slot(w, serial) = (struct um_operation){.stage = UM_ISSUED};
    w->next = serial + 1;
    return true;
}

static bool holds(const struct um_window *w, uint64_t serial) {
    return serial >= w->oldest && serial < w->next;
}

void um_window_mark(struct um_window *w, uint64_t serial, CUevent event) {
    if (holds(w, serial))
        *slot(w, serial) = (struct um_operation){UM_MARKED, event};
}

void um_window_retire(struct um_window *w, uint64_t serial) {
    if (!holds(w, serial))
        return;
    *slot(w, serial) = (struct um_operation){.stage = UM_RETIRED};
    while (w->oldest < w->next && slot(w, w->oldest)->stage == UM_RETIRED)
        w->oldest++;
}

struct um_operation um_window_find(const struct um_window *w, uint64_t serial) {
    return holds(w, serial) ? *slot(w, serial) : (struct um_operation){.stage = UM_RETIRED};
}
