#include "space.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(struct space *s) {
    if (s->count < s->room)
        return true;
    size_t room = s->room ? 2 * s->room : 16;
    struct space_range *bigger = realloc(s->free, room * sizeof *bigger);
    if (!bigger)
        return false;
    s->free = bigger;
    s->room = room;
    return true;
}

static void insert(struct space *s, size_t i, uint64_t start, uint64_t end) {
    memmove(s->free + i + 1, s->free + i, (s->count - i) * sizeof *s->free);
    s->free[i] = (struct space_range){start, end};
    s->count++;
}

static void erase(struct space *s, size_t i) {
    s->count--;
    memmove(s->free + i, s->free + i + 1, (s->count - i) * sizeof *s->free);
}

/* The first free range that ends after the address. */
static size_t find(const struct space *s, uint64_t address) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->free[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool space_add(struct space *s, uint64_t start, uint64_t bytes) {
    uint64_t end = start + bytes;
    size_t i = find(s, start);
    bool joins_left = i > 0 && s->free[i - 1].end == start;
    bool joins_right = i < s->count && s->free[i].start == end;
    if (joins_left && joins_right) {
        s->free[i - 1].end = s->free[i].end;
        erase(s, i);
    } else if (joins_left) {
        s->free[i - 1].end = end;
    } else if (joins_right) {
        s->free[i].start = start;
    } else {
        if (!make_room(s))
            return false;
        insert(s, i, start, end);
    }
    return true;
}

/* Takes [start, end) out of free range i, which holds it. */
static bool cut(struct space *s, size_t i, uint64_t start, uint64_t end) {
    struct space_range r = s->free[i];
    if (r.start == start && r.end == end) {
        erase(s, i);
    } else if (r.start == start) {
        s->free[i].start = end;
    } else if (r.end == end) {
        s->free[i].end = start;
    } else {
        if (!make_room(s))
            return false;
        s->free[i].end = start;
        insert(s, i + 1, end, r.end);
    }
    return true;
}

uint64_t space_take(struct space *s, uint64_t bytes, uint64_t alignment) {
    for (size_t i = 0; i < s->count; i++) {
        uint64_t start = (s->free[i].start + alignment - 1) / alignment * alignment;
        if (start < s->free[i].end && s->free[i].end - start >= bytes)
            return cut(s, i, start, start + bytes) ? start : 0;
    }
    return 0;
}

bool space_take_at(struct space *s, uint64_t start, uint64_t bytes) {
    size_t i = find(s, start);
    if (i == s->count || s->free[i].start > start || s->free[i].end - start < bytes)
        return false;
    return cut(s, i, start, start + bytes);
}

bool space_holds(const struct space *s, uint64_t address) {
    size_t i = find(s, address);
    return i < s->count && s->free[i].start <= address;
}
