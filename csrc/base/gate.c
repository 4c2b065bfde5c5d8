#include "base/gate.h"

void gate_enter(struct gate *g, size_t n) {
    if (n == 0)
        return;
    lock_take(&g->lock);
    while (g->closed)
        condition_wait(&g->opened, &g->lock, 0);
    g->there += n;
    lock_drop(&g->lock);
}

void gate_leave(struct gate *g, size_t n) {
    if (n == 0)
        return;
    lock_take(&g->lock);
    g->there -= n;
    lock_drop(&g->lock);
}

size_t gate_close(struct gate *g, int device) {
    lock_take(&g->lock);
    g->closed |= 1u << device;
    size_t there = g->there;
    lock_drop(&g->lock);
    return there;
}

void gate_open(struct gate *g, int device) {
    lock_take(&g->lock);
    g->closed &= ~(1u << device);
    condition_tell_all(&g->opened);
    lock_drop(&g->lock);
}
