/* What the tests of argument arrays share: arrays of pointers inside one parameter, of which only the places that a
 * launch uses are touched. The layouts are spelt in the tests as PyTorch declares them, filled like its launchers fill
 * them, with live addresses of an earlier use all around. */
#ifndef ULMS_TESTS_ARGUMENT_ARRAYS_H
#define ULMS_TESTS_ARGUMENT_ARRAYS_H

#include "launch/scan.h"

#include <stddef.h>

#include "test.h"

enum { LIVE = 0x1000000, STALE = 0x2000000, BLOCK = 0x100, AHEAD = 16 };

static struct ledger *l;
static struct layout layout;
static struct touch touches[TOUCH_MAX];
static struct op op;
static union {
    void *align[2];
    char bytes[1 << 15];
} buffer; /* of all parameters; the one with arrays lies behind a small one */

static inline void describe(uint64_t handle, struct layout *out) {
    (void)handle;
    *out = layout;
}

/* What is known of a function with this name, whose second parameter has so many bytes. */
static inline struct function *function(const char *name, size_t bytes) {
    static uint64_t handle;
    layout = (struct layout){.known = true, .parameters = 2, .offset = {0, AHEAD}, .size = {1, (uint16_t)bytes}};
    snprintf(layout.name, sizeof layout.name, "%s", name);
    function_describe = describe;
    return function_of(++handle);
}

static inline void begin(void) {
    struct allocation a = {.start = LIVE, .bytes = 2 * (STALE - LIVE)};
    l = ledger_new();
    CHECK(ledger_add(l, &a));
    for (addr_t i = 0; i < sizeof buffer.bytes / 8; i++) {
        ledger_block_add(l, LIVE + BLOCK * i, BLOCK);
        ledger_block_add(l, STALE + BLOCK * i, BLOCK);
    }
}

static inline void fill_stale(void) {
    for (addr_t i = 0; i < sizeof buffer.bytes / 8; i++) {
        addr_t p = STALE + BLOCK * i;
        memcpy(buffer.bytes + 8 * i, &p, 8);
    }
}

/* Both forms of arguments. Returns the touches of LIVE, which come in order; *stale gets how many others there are. */
static inline uint32_t scan(const struct function *f, size_t bytes, struct grid grid, uint32_t *stale) {
    void *parameters[] = {buffer.bytes, buffer.bytes + AHEAD};
    uint32_t live = 0, found;
    op = (struct op){.touches = touches};
    scan_parameters(&op, l, f, grid, parameters);
    found = op.count;
    while (live < op.count && touches[live].start == LIVE + (addr_t)live * BLOCK)
        live++;
    *stale = op.count - live;
    op = (struct op){.touches = touches};
    scan_buffer(&op, l, f, grid, buffer.bytes, AHEAD + bytes);
    CHECK_EQ(op.count, found);
    op = (struct op){.touches = touches};
    scan_buffer(&op, l, f, grid, buffer.bytes, AHEAD + bytes - 1); /* the parameter is not all there */
    CHECK(op.count + 1 >= found);
    op = (struct op){.touches = touches};
    scan_buffer(&op, l, f, grid, buffer.bytes, AHEAD); /* none of it is */
    CHECK_EQ(op.count, 0);
    return live;
}

static inline void check_exact(const struct function *f, size_t bytes, struct grid grid, uint32_t expected) {
    uint32_t stale;
    CHECK_EQ(scan(f, bytes, grid, &stale), expected);
    CHECK_EQ(stale, 0);
}

static inline void check_all(const struct function *f, size_t bytes, struct grid grid) {
    uint32_t stale, live = scan(f, bytes, grid, &stale);
    CHECK(live + stale > bytes / 8 * 3 / 4); /* but the words that hold tables and numbers */
}

/* The first `used` places of each array. */
static inline void fill_arrays(unsigned arrays, const size_t *at, unsigned used) {
    addr_t p = LIVE;
    for (unsigned i = 0; i < arrays; i++)
        for (unsigned k = 0; k < used; k++, p += BLOCK)
            memcpy(buffer.bytes + AHEAD + at[i] + 8 * k, &p, 8);
}

#endif
