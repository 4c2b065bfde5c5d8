/* Loops for test_ledger_bench.py, so that calls from Python do not count. A look-up's answer is the start of the block
 * around the pointer; every loop returns the sum of its answers, by which it is checked. */
#include "ledger/ledger.h"

#include <stdlib.h>

/* One allocation over everything, and every block, in the order given. */
void loop_fill(struct ledger *l, const uint64_t *starts, const uint64_t *ends, size_t n, const uint32_t *order) {
    struct allocation all = {.start = starts[0], .bytes = ends[n - 1] - starts[0]};
    ledger_add(l, &all);
    for (size_t i = 0; i < n; i++)
        ledger_block_add(l, starts[order[i]], ends[order[i]] - starts[order[i]]);
}

/* Takes out and enters again the blocks in the order given. */
void loop_replace(struct ledger *l, const uint64_t *starts, const uint64_t *ends, size_t n, const uint32_t *order) {
    for (size_t i = 0; i < n; i++) {
        ledger_block_remove(l, starts[order[i]]);
        ledger_block_add(l, starts[order[i]], ends[order[i]] - starts[order[i]]);
    }
}

/* `set` pointers, a power of two, over and over. */
uint64_t loop_extent(struct ledger *l, const uint64_t *pointers, size_t set, size_t times) {
    uint64_t sum = 0;
    struct touch t;
    for (size_t i = 0; i < times; i++)
        if (ledger_extent(l, pointers[i & (set - 1)], &t))
            sum += t.start;
    return sum;
}

uint64_t loop_may_hold(struct ledger *l, const uint64_t *pointers, size_t set, size_t times) {
    uint64_t sum = 0;
    for (size_t i = 0; i < times; i++)
        sum += ledger_may_hold(l, pointers[i & (set - 1)]);
    return sum;
}

/* The key is compared with a start and the one after it, so that an answer is the place before the key. */
static int compare(const void *key, const void *start) {
    uint64_t p = *(const uint64_t *)key;
    const uint64_t *s = start;
    return p < s[0] ? -1 : p >= s[1];
}

/* A sorted array: starts has one more entry, the end of everything. */
uint64_t loop_bsearch(const uint64_t *starts, const uint64_t *ends, size_t n, const uint64_t *pointers, size_t set,
                      size_t times) {
    uint64_t sum = 0;
    for (size_t i = 0; i < times; i++) {
        const uint64_t *p = &pointers[i & (set - 1)], *found = bsearch(p, starts, n, sizeof *starts, compare);
        if (found && *p < ends[found - starts])
            sum += *found;
    }
    return sum;
}
