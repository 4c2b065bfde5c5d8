/* The kernels: whole numbers only, so that results are exact. A long range is touched as a whole and computed in
 * samples, so that programs are quick; a page that lost its content shows all the same. */
#include "random_program.h"

#include <string.h>

typedef uint64_t address;
typedef uint32_t word;

enum { SAMPLES = 4096, FUSED_MAX = 6 };

struct mix {
    address y, x;
    uint64_t words;
    word key;
};

struct blend {
    address y, a, b;
    uint64_t words;
    word key;
};

struct overwrite {
    address y;
    uint64_t words;
    word key;
};

struct table {
    address y, table;
    uint64_t words;
    word key;
};

struct hidden {
    address x;
    uint64_t words;
    word key;
};

struct fused {
    word count, key;
    address start[FUSED_MAX];
    uint64_t words[FUSED_MAX];
};

static uint64_t stride(uint64_t words) {
    return words > SAMPLES ? (words / SAMPLES) | 1 : 1;
}

static word scramble(word a, word b) {
    a = (a ^ b) * 0x9e3779b1u;
    return a ^ a >> 15;
}

static word *use(struct emu_launch *l, address at, uint64_t words, int mode) {
    return emu_use(l, at, words * sizeof(word), mode);
}

/* mix(y, x, words, key): y from y and x */
static void mix(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    word *y = use(l, EMU_ARG(l, address, 0), n, EMU_UPDATE), key = EMU_ARG(l, word, 3);
    const word *x = use(l, EMU_ARG(l, address, 1), n, EMU_READ);
    for (uint64_t i = key % stride(n); i < n; i += stride(n))
        y[i] = scramble(y[i] + key, x[i]);
}

/* blend(y, a, b, words, key): y from y, a and b */
static void blend(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 3);
    word *y = use(l, EMU_ARG(l, address, 0), n, EMU_UPDATE), key = EMU_ARG(l, word, 4);
    const word *a = use(l, EMU_ARG(l, address, 1), n, EMU_READ), *b = use(l, EMU_ARG(l, address, 2), n, EMU_READ);
    for (uint64_t i = key % stride(n); i < n; i += stride(n))
        y[i] += scramble(a[i] + key, b[i]);
}

/* overwrite(y, words, key): every word of y, without reading it */
static void overwrite(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 1);
    word *y = use(l, EMU_ARG(l, address, 0), n, EMU_WRITE), key = EMU_ARG(l, word, 2);
    for (uint64_t i = 0; i < n; i++)
        y[i] = key + (word)i;
}

/* gather(y, table, words, key): y from what the POINTERS addresses in the table point to, so many words each */
static void gather(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const address *table = emu_use(l, EMU_ARG(l, address, 1), POINTERS * sizeof *table, EMU_READ);
    word *y = use(l, EMU_ARG(l, address, 0), n, EMU_UPDATE), key = EMU_ARG(l, word, 3);
    for (int k = 0; k < POINTERS; k++) {
        const word *x = use(l, table[k], n, EMU_READ);
        for (uint64_t i = key % stride(n); i < n; i += stride(n))
            y[i] = scramble(y[i] + key, x[i]);
    }
}

/* scatter(x, table, words, key): the other way round */
static void scatter(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 2);
    const address *table = emu_use(l, EMU_ARG(l, address, 1), POINTERS * sizeof *table, EMU_READ);
    const word *x = use(l, EMU_ARG(l, address, 0), n, EMU_READ);
    word key = EMU_ARG(l, word, 3);
    for (int k = 0; k < POINTERS; k++) {
        word *y = use(l, table[k], n, EMU_UPDATE);
        for (uint64_t i = key % stride(n); i < n; i += stride(n))
            y[i] = scramble(y[i] + key, x[i]);
    }
}

/* hidden(x, words, key): what the module's variable points to, from x */
static void hidden(struct emu_launch *l) {
    uint64_t n = EMU_ARG(l, uint64_t, 1);
    const address *variable = emu_use(l, emu_variable(l, "hidden"), sizeof *variable, EMU_READ);
    const word *x = use(l, EMU_ARG(l, address, 0), n, EMU_READ);
    word *y = use(l, *variable, n, EMU_UPDATE), key = EMU_ARG(l, word, 2);
    for (uint64_t i = key % stride(n); i < n; i += stride(n))
        y[i] = scramble(y[i] + key, x[i]);
}

/* fused(structure): each of its ranges from itself */
static void fused(struct emu_launch *l) {
    struct fused f = EMU_ARG(l, struct fused, 0);
    for (word k = 0; k < f.count; k++) {
        word *y = use(l, f.start[k], f.words[k], EMU_UPDATE);
        for (uint64_t i = f.key % stride(f.words[k]); i < f.words[k]; i += stride(f.words[k]))
            y[i] = scramble(y[i], f.key + k);
    }
}

#define FIELD(structure, field) {offsetof(struct structure, field), sizeof((struct structure *)NULL)->field}
#define COUNT(list)             (sizeof(list) / sizeof *(list))

static const struct emu_param mix_params[] = {FIELD(mix, y), FIELD(mix, x), FIELD(mix, words), FIELD(mix, key)};
static const struct emu_param blend_params[] = {FIELD(blend, y), FIELD(blend, a), FIELD(blend, b), FIELD(blend, words),
                                                FIELD(blend, key)};
static const struct emu_param overwrite_params[] = {FIELD(overwrite, y), FIELD(overwrite, words),
                                                    FIELD(overwrite, key)};
static const struct emu_param table_params[] = {FIELD(table, y), FIELD(table, table), FIELD(table, words),
                                                FIELD(table, key)};
static const struct emu_param hidden_params[] = {FIELD(hidden, x), FIELD(hidden, words), FIELD(hidden, key)};
static const struct emu_param fused_params[] = {{0, sizeof(struct fused)}};

const char *const kernel_names[KERNELS] = {
    [MIX] = "mix",         [BLEND] = "blend",   [OVERWRITE] = "overwrite", [GATHER] = "gather",
    [SCATTER] = "scatter", [HIDDEN] = "hidden", [FUSED] = "fused"};

static const struct emu_kernel kernels[KERNELS] = {
    [MIX] = {"mix", mix_params, COUNT(mix_params), mix},
    [BLEND] = {"blend", blend_params, COUNT(blend_params), blend},
    [OVERWRITE] = {"overwrite", overwrite_params, COUNT(overwrite_params), overwrite},
    [GATHER] = {"gather", table_params, COUNT(table_params), gather},
    [SCATTER] = {"scatter", table_params, COUNT(table_params), scatter},
    [HIDDEN] = {"hidden", hidden_params, COUNT(hidden_params), hidden},
    [FUSED] = {"fused", fused_params, COUNT(fused_params), fused}};

static const struct emu_variable variables[] = {{"hidden", sizeof(address), NULL}};

const struct emu_image random_image = {EMU_MAGIC, kernels, KERNELS, variables, COUNT(variables)};

int kernel_parameters(int kernel, unsigned char *bytes, void **out) {
    for (uint64_t i = 0; i < kernels[kernel].param_count; i++)
        out[i] = bytes + kernels[kernel].params[i].offset;
    return (int)kernels[kernel].param_count;
}

#define ARGUMENTS(number, structure, ...)                                                                              \
    struct structure s = {__VA_ARGS__};                                                                                \
    struct arguments a = {.kernel = (number), .size = sizeof s};                                                       \
    _Static_assert(sizeof s <= sizeof a.bytes, "room for the arguments");                                              \
    memcpy(a.bytes, &s, sizeof s);                                                                                     \
    return a

struct arguments kernel_mix(CUdeviceptr y, CUdeviceptr x, uint64_t words, uint32_t key) {
    ARGUMENTS(MIX, mix, y, x, words, key);
}

struct arguments kernel_blend(CUdeviceptr y, CUdeviceptr a1, CUdeviceptr b, uint64_t words, uint32_t key) {
    ARGUMENTS(BLEND, blend, y, a1, b, words, key);
}

struct arguments kernel_overwrite(CUdeviceptr y, uint64_t words, uint32_t key) {
    ARGUMENTS(OVERWRITE, overwrite, y, words, key);
}

struct arguments kernel_table(int kernel, CUdeviceptr y, CUdeviceptr table, uint64_t words, uint32_t key) {
    ARGUMENTS(kernel, table, y, table, words, key);
}

struct arguments kernel_hidden(CUdeviceptr x, uint64_t words, uint32_t key) {
    ARGUMENTS(HIDDEN, hidden, x, words, key);
}

struct arguments kernel_fused(const CUdeviceptr *start, const uint64_t *words, uint32_t count, uint32_t key) {
    struct fused f = {.count = count, .key = key};
    memcpy(f.start, start, count * sizeof *start);
    memcpy(f.words, words, count * sizeof *words);
    struct arguments a = {.kernel = FUSED, .size = sizeof f};
    _Static_assert(sizeof f <= sizeof a.bytes, "room for the arguments");
    memcpy(a.bytes, &f, sizeof f);
    return a;
}
