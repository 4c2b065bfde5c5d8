/* A segment tree: node 1 is the root, the children of node i are 2 i and 2 i + 1. */
#include "engine/occupancy.h"

#include <stdlib.h>

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static void sum_up(struct occupancy *o, uint32_t node) {
    o->most[node] = larger(o->most[2 * node], o->most[2 * node + 1]) + o->added[node];
}

bool occupancy_open(struct occupancy *o, uint32_t operations, const uint32_t *values) {
    o->operations = operations;
    for (o->leaves = 1; o->leaves < operations;)
        o->leaves *= 2;
    o->most = calloc(2 * (size_t)o->leaves, sizeof *o->most);
    o->added = calloc(o->leaves, sizeof *o->added);
    if (!o->most || !o->added)
        return false;
    for (uint32_t k = 0; k < operations; k++)
        o->most[o->leaves + k] = (int32_t)values[k];
    for (uint32_t node = o->leaves; --node;)
        sum_up(o, node);
    return true;
}

void occupancy_close(struct occupancy *o) {
    free(o->most);
    free(o->added);
    o->most = o->added = NULL;
}

uint32_t occupancy_at(const struct occupancy *o, uint64_t operation) {
    uint32_t node = o->leaves + (uint32_t)(operation % o->operations);
    int32_t value = o->most[node];
    while (node /= 2)
        value += o->added[node];
    return (uint32_t)value;
}

void occupancy_set(struct occupancy *o, uint64_t operation, uint32_t value) {
    uint32_t node = o->leaves + (uint32_t)(operation % o->operations);
    o->most[node] += (int32_t)value - (int32_t)occupancy_at(o, operation);
    while (node /= 2)
        sum_up(o, node);
}

/* What follows works on [first, end) within one period; a node covers [low, low + width). */

static void take(struct occupancy *o, uint32_t node, uint32_t low, uint32_t width, uint32_t first, uint32_t end) {
    if (end <= low || low + width <= first)
        return;
    if (first <= low && low + width <= end) {
        o->most[node]++;
        if (width > 1)
            o->added[node]++;
        return;
    }
    take(o, 2 * node, low, width / 2, first, end);
    take(o, 2 * node + 1, low + width / 2, width / 2, first, end);
    sum_up(o, node);
}

static uint32_t full(const struct occupancy *o, uint32_t node, uint32_t low, uint32_t width, uint32_t first,
                     uint32_t end, int32_t limit) {
    if (end <= low || low + width <= first || o->most[node] < limit)
        return end;
    if (width == 1)
        return low;
    limit -= o->added[node];
    uint32_t at = full(o, 2 * node, low, width / 2, first, end, limit);
    return at < end ? at : full(o, 2 * node + 1, low + width / 2, width / 2, first, end, limit);
}

void occupancy_take(struct occupancy *o, uint64_t first, uint64_t end) {
    uint64_t from = first % o->operations, to = from + (end - first), n = o->operations;
    take(o, 1, 0, o->leaves, (uint32_t)from, (uint32_t)(to < n ? to : n));
    if (to > n)
        take(o, 1, 0, o->leaves, 0, (uint32_t)(to - n));
}

uint64_t occupancy_full(const struct occupancy *o, uint64_t first, uint64_t end, uint32_t limit) {
    uint64_t from = first % o->operations, to = from + (end - first), n = o->operations, near = to < n ? to : n;
    uint32_t at = full(o, 1, 0, o->leaves, (uint32_t)from, (uint32_t)near, (int32_t)limit);
    if (at < near)
        return first + (at - from);
    if (to <= n)
        return end;
    at = full(o, 1, 0, o->leaves, 0, (uint32_t)(to - n), (int32_t)limit);
    return first + (n - from) + at;
}
