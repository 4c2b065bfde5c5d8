#include "observe/held.h"

#include <string.h>

#include "base/lock.h"
#include "base/spread.h"
#include "observe/stats.h"

enum { OTHERS = ULMS_HELD - 1 };
#define OTHERS_KEY UINT64_MAX

static struct lock naming;

static uint64_t key_at(const struct ulms_held *row) {
    return __atomic_load_n(&row->key, __ATOMIC_ACQUIRE);
}

/* The key's row, or the one to take; the last one when all others are taken. */
static struct ulms_held *held_find(struct ulms_held *rows, uint64_t key) {
    size_t home = (size_t)(spread(key) >> 32) % OTHERS;
    for (size_t i = 0; i < OTHERS; i++) {
        struct ulms_held *row = &rows[(home + i) % OTHERS];
        uint64_t there = key_at(row);
        if (there == key || there == 0)
            return row;
    }
    return &rows[OTHERS];
}

/* A reader that finds the key finds the name. */
static struct ulms_held *held_take(struct ulms_held *rows, uint64_t key, const char *name) {
    lock_take(&naming);
    struct ulms_held *row = held_find(rows, key);
    bool others = row == &rows[OTHERS];
    if (key_at(row) == 0) {
        strncpy(row->name, others ? "(others)" : name, sizeof row->name - 1);
        __atomic_store_n(&row->key, others ? OTHERS_KEY : key, __ATOMIC_RELEASE);
    }
    lock_drop(&naming);
    return row;
}

void held_add(uint64_t key, const char *name, uint64_t ns, uint64_t missing_bytes) {
    struct ulms_held *rows = stats_held(), *row = held_find(rows, key);
    if (key_at(row) == 0)
        row = held_take(rows, key, name);
    __atomic_fetch_add(&row->ns, ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->times, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->missing_bytes, missing_bytes, __ATOMIC_RELAXED);
}

static struct ulms_held read_row(const struct ulms_held *row) {
    struct ulms_held now = {.key = key_at(row)};
    if (now.key == 0)
        return now;
    memcpy(now.name, row->name, sizeof now.name);
    now.ns = __atomic_load_n(&row->ns, __ATOMIC_RELAXED);
    now.times = __atomic_load_n(&row->times, __ATOMIC_RELAXED);
    now.missing_bytes = __atomic_load_n(&row->missing_bytes, __ATOMIC_RELAXED);
    return now;
}

size_t held_worst(struct ulms_held *out, size_t n) {
    const struct ulms_held *rows = stats_held();
    size_t count = 0;
    for (size_t i = 0; i < ULMS_HELD; i++) {
        struct ulms_held row = read_row(&rows[i]);
        size_t at = count;
        for (; at > 0 && out[at - 1].ns < row.ns; at--)
            if (at < n)
                out[at] = out[at - 1];
        if (row.times && at < n)
            out[at] = row;
        count += row.times && count < n;
    }
    return count;
}
