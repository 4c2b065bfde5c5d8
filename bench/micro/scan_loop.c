/* Arguments of launches searched for addresses, for test_scan_bench.py: those of launch.c. Every loop returns the sum
 * of the starts of what it found, by which it is checked. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "launch/scan.h"

enum { BLOCK = 512 };

extern const struct emu_image bench_image;
void bench_arguments(addr_t base, unsigned long blocks);
void **bench_set(unsigned i);

static const struct function *function;

static void describe(uint64_t handle, struct layout *out) {
    (void)handle;
    const struct emu_kernel *kernel = bench_image.kernels;
    out->known = true;
    out->parameters = (uint32_t)kernel->param_count;
    for (uint32_t i = 0; i < out->parameters; i++) {
        out->offset[i] = (uint16_t)kernel->params[i].offset;
        out->size[i] = (uint16_t)kernel->params[i].size;
    }
    strcpy(out->name, kernel->name);
}

/* One allocation at `base`, all of it in blocks, into which all addresses point. */
struct ledger *scan_world(addr_t base, unsigned long blocks) {
    struct allocation all = {.start = base, .bytes = blocks * BLOCK};
    struct ledger *l = ledger_new();
    ledger_add(l, &all);
    for (unsigned long i = 0; i < blocks; i++)
        ledger_block_add(l, base + i * BLOCK, BLOCK);
    function_describe = describe;
    function = function_of(1);
    bench_arguments(base, blocks);
    return l;
}

static uint64_t sum_of(const struct op *op) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < op->count; i++)
        sum += op->touches[i].start;
    return sum;
}

uint64_t loop_scan(struct ledger *l, unsigned times) {
    static struct touch touches[TOUCH_MAX];
    uint64_t sum = 0;
    for (unsigned i = 0; i < times; i++) {
        struct op op = {.touches = touches};
        scan_parameters(&op, l, function, (struct grid){1, 1}, bench_set(i));
        sum += sum_of(&op);
    }
    return sum;
}

/* The last of n ascending starts that is not above p; there is one. */
static uint64_t bisect(const uint64_t *starts, size_t n, addr_t p) {
    while (n > 1) {
        size_t half = n / 2;
        starts += starts[half] <= p ? half : 0;
        n -= half;
    }
    return *starts;
}

static void keep(struct op *op, uint64_t start) {
    for (uint32_t i = 0; i < op->count; i++)
        if (op->touches[i].start == start)
            return;
    op->touches[op->count++] = (struct touch){.start = start, .bytes = BLOCK, .mode = TOUCH_UPDATE};
}

/* The same by a sorted array: every word that lies between the first block and the end of the last is looked up. */
uint64_t loop_bisect(const uint64_t *starts, size_t n, unsigned times) {
    static struct touch touches[TOUCH_MAX];
    uint64_t sum = 0, low = starts[0], bytes = starts[n - 1] + BLOCK - low;
    for (unsigned i = 0; i < times; i++) {
        struct op op = {.touches = touches};
        void *const *parameters = bench_set(i);
        for (const struct word_run *run = function->run; run < &function->run[function->runs]; run++)
            for (unsigned word = 0; word < run->words; word++) {
                addr_t p;
                memcpy(&p, (const char *)parameters[run->parameter] + run->skip + 8 * word, sizeof p);
                if (p - low < bytes)
                    keep(&op, bisect(starts, n, p));
            }
        sum += sum_of(&op);
    }
    return sum;
}
