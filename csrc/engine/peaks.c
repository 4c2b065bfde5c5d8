#include <stdlib.h>

#include "engine/engine.h"

bool peaks_open(struct peaks *k, size_t capacity) {
    *k = (struct peaks){.most = calloc(2 * capacity, sizeof(*k->most)), .capacity = capacity};
    return k->most != NULL;
}

static uint32_t most_under(const struct peaks *k, size_t node) {
    return larger(k->most[2 * node], k->most[2 * node + 1]);
}

void peaks_set(struct peaks *k, uint64_t position, uint32_t live) {
    uint32_t *place = peaks_at(k, position);
    *place = live;
    for (size_t node = (size_t)(place - k->most) / 2; node > 0; node /= 2) {
        uint32_t most = most_under(k, node);
        if (most == k->most[node])
            return;
        k->most[node] = most;
    }
}

void peaks_sum(struct peaks *k) {
    for (size_t node = k->capacity; --node > 0;)
        k->most[node] = most_under(k, node);
}

/* What follows works on places [first, end) of the ring. */

static uint32_t most_of(const struct peaks *k, size_t first, size_t end) {
    uint32_t most = 0; /* nothing is above the root */
    for (first += k->capacity, end += k->capacity; first < end && most < k->most[1]; first = (first + 1) / 2, end /= 2)
        most = larger(most, larger(k->most[first], k->most[end - 1]));
    return most;
}

/* Up and on over nodes that have nothing above, then down to the place. */
static size_t above_of(const struct peaks *k, size_t first, size_t end, uint32_t live) {
    size_t node = k->capacity + first;
    if (k->most[1] <= live)
        return end;
    while (k->most[node] <= live) {
        node++;
        if ((node & (node - 1)) == 0) /* the last of its level was passed */
            return end;
        node >>= __builtin_ctzll(node);
    }
    while (node < k->capacity) {
        node *= 2;
        node += k->most[node] <= live;
    }
    return node - k->capacity < end ? node - k->capacity : end;
}

uint32_t peaks_most(const struct peaks *k, uint64_t first, uint64_t end) {
    size_t from = first & (k->capacity - 1), to = from + (end - first);
    if (to <= k->capacity)
        return most_of(k, from, to);
    return larger(most_of(k, from, k->capacity), most_of(k, 0, to - k->capacity));
}

uint64_t peaks_above(const struct peaks *k, uint64_t first, uint64_t end, uint32_t live) {
    size_t from = first & (k->capacity - 1), to = from + (end - first), near = to < k->capacity ? to : k->capacity;
    size_t at = above_of(k, from, near, live);
    if (at == near && to > near)
        at = near + above_of(k, 0, to - near, live);
    return first + (at - from);
}
