/* hidden.h's kernels on the emulated device. */
#include "hidden.h"

#include "emu.h"

typedef uint64_t address;

static void change(struct emu_launch *l, address y, uint64_t n, uint32_t add) {
    uint32_t *word = emu_use(l, y, n * sizeof *word, EMU_UPDATE);
    for (uint64_t i = 0; i < n; i++)
        word[i] = 1664525 * word[i] + add + (uint32_t)i;
}

static void open(struct emu_launch *l) {
    change(l, EMU_ARG(l, address, 0), EMU_ARG(l, uint64_t, 1), EMU_ARG(l, uint32_t, 2));
}

static void inside(struct emu_launch *l) {
    change(l, EMU_ARG(l, address, 0) + 4 * EMU_ARG(l, uint64_t, 1), EMU_ARG(l, uint64_t, 2), EMU_ARG(l, uint32_t, 3));
}

static void part(struct emu_launch *l) {
    struct {
        address y;
        uint64_t n;
        uint32_t add;
        char more[HIDDEN_ARGUMENTS - 20];
    } a = EMU_ARG(l, __typeof__(a), 0);
    change(l, a.y, a.n, a.add);
}

static void through(struct emu_launch *l) {
    uint64_t count = EMU_ARG(l, uint64_t, 1);
    const address *slots = emu_use(l, EMU_ARG(l, address, 0), count * sizeof *slots, EMU_READ);
    for (uint64_t i = 0; i < count; i++)
        change(l, slots[i], EMU_ARG(l, uint64_t, 2), EMU_ARG(l, uint32_t, 3));
}

static void through_variable_named(struct emu_launch *l, const char *name) {
    const address *p = emu_use(l, emu_variable(l, name), sizeof *p, EMU_READ);
    change(l, *p, EMU_ARG(l, uint64_t, 0), EMU_ARG(l, uint32_t, 1));
}

static void through_variable(struct emu_launch *l) {
    through_variable_named(l, HIDDEN_VARIABLE);
}

static void through_constant(struct emu_launch *l) {
    through_variable_named(l, HIDDEN_CONSTANT);
}

static void follow(struct emu_launch *l) {
    for (address at = EMU_ARG(l, address, 0); at;) {
        const address *node = emu_use(l, at, 2 * sizeof *node, EMU_READ);
        change(l, node[1], EMU_ARG(l, uint64_t, 1), EMU_ARG(l, uint32_t, 2));
        at = node[0];
    }
}

static void sampled(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const uint32_t *word = emu_use(l, emu_texture(EMU_ARG(l, uint64_t, 0)), n * sizeof *word, EMU_READ);
    uint32_t *y = emu_use(l, EMU_ARG(l, address, 1), n * sizeof *y, EMU_UPDATE);
    for (uint64_t i = 0; i < n; i++)
        y[i] = 1664525 * y[i] + EMU_ARG(l, uint32_t, 3) + (uint32_t)i + word[i];
}

static void store(struct emu_launch *l) {
    address *slot = emu_use(l, EMU_ARG(l, address, 0) + 8 * EMU_ARG(l, uint64_t, 1), sizeof *slot, EMU_WRITE);
    *slot = EMU_ARG(l, address, 2) + 4 * EMU_ARG(l, uint64_t, 3);
}

#define PARAMS(...)                                                                                                    \
    (const struct emu_param[]){__VA_ARGS__}, sizeof((struct emu_param[]){__VA_ARGS__}) / sizeof(struct emu_param)
#define P(offset, size) {offset, size}

static const struct emu_kernel kernels[] = {
    {HIDDEN_OPEN, PARAMS(P(0, 8), P(8, 8), P(16, 4)), open},
    {"inside", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 4)), inside},
    {"part", PARAMS(P(0, HIDDEN_ARGUMENTS)), part},
    {"through", PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 4)), through},
    {"through_variable", PARAMS(P(0, 8), P(8, 4)), through_variable},
    {"through_constant", PARAMS(P(0, 8), P(8, 4)), through_constant},
    {"follow", PARAMS(P(0, 8), P(8, 8), P(16, 4)), follow},
    {HIDDEN_SAMPLED, PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 4)), sampled},
    {HIDDEN_STORE, PARAMS(P(0, 8), P(8, 8), P(16, 8), P(24, 8)), store},
};
static const struct emu_variable variables[] = {{HIDDEN_VARIABLE, 8, NULL}, {HIDDEN_CONSTANT, 8, NULL}};
static const struct emu_image image = {EMU_MAGIC, kernels, sizeof kernels / sizeof *kernels, variables,
                                       sizeof variables / sizeof *variables};

const void *hidden_image(void) {
    return &image;
}
