#include "launch/argument_arrays.h"

#include <stdio.h>
#include <string.h>

#include "launch/function.h"

enum { KNOWN_MAX = 128 };
static struct argument_arrays known[KNOWN_MAX];
static uint16_t count;

static unsigned up(unsigned bytes, unsigned align) {
    return (bytes + align - 1) / align * align;
}

/* What comes after the prefix; NULL when it is not there. */
static const char *after(const char *text, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* --- PyTorch, ATen/native/cuda/MultiTensorApply.cuh: lists of tensors, and which tensor each block works on --- */

struct lists {
    unsigned n;      /* lists: 1 to 5 */
    unsigned scalar; /* bytes of the number that goes with each tensor; 0: none */
    bool steps;      /* one more array of pointers, in optimizers */
};

enum { LISTS_MAX = 5, LISTS_BLOCKS = 320, LARGE = 7 };

/* Tensors in each of n lists: without numbers, with them, with complex numbers of 16 bytes. */
static const uint8_t tensors[][LISTS_MAX] = {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, {72, 60, 48, 36, 30}};

static const char *read_scalar(const char *at, unsigned *bytes) {
    static const struct {
        const char *type;
        unsigned bytes;
    } types[] = {
        /* clang-format off */
        {"a", 1}, {"b", 1}, {"h", 1}, {"s", 2}, {"i", 4}, {"f", 4}, {"l", 8}, {"d", 8},
        {"N3c107complexIfEE", 8}, {"N3c107complexIdEE", 16},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *rest = after(at, types[i].type);
        *bytes = types[i].bytes;
        if (rest)
            return rest;
    }
    return NULL;
}

static bool read_lists(const char *arguments, struct lists *l) {
    static const struct {
        const char *type;
        bool scalars, steps;
    } types[] = {{"18TensorListMetadataI", false, false},
                 {"28TensorListScalarListMetadataI", true, false},
                 {"32FusedOptimizerTensorListMetadataI", false, true}};
    const char *at = after(arguments, "NS"), *rest = NULL;
    at = at ? strchr(at, '_') : NULL;
    for (size_t i = 0; at && !rest && i < sizeof types / sizeof *types; i++) {
        rest = after(at + 1, types[i].type);
        l->steps = types[i].steps;
        l->scalar = 0;
        if (rest && types[i].scalars)
            rest = read_scalar(rest, &l->scalar);
    }
    rest = rest ? after(rest, "Li") : NULL;
    l->n = rest ? (unsigned)(rest[0] - '0') : 0;
    return l->n >= 1 && l->n <= LISTS_MAX && rest[1] == 'E';
}

/* large: the layout for parameters of up to 32 KB. numel: bytes of a tensor's number of elements. */
static bool lists_fit(const struct lists *l, bool large, unsigned numel, uint32_t bytes, struct argument_arrays *out) {
    unsigned scale = large ? LARGE : 1, blocks = scale * LISTS_BLOCKS, width = large ? 2 : 1;
    unsigned places = scale * tensors[l->scalar == 16 ? 2 : l->scalar > 0][l->n - 1], end = 0;
    *out = (struct argument_arrays){.told = ARRAYS_BY_TABLE, .places = (uint16_t)places};
    for (; out->arrays < l->n; end += 8 * places)
        out->array[out->arrays++] = (uint16_t)end;
    end += numel * places;
    if (l->scalar)
        end = up(end, l->scalar) + l->scalar * places;
    if (l->steps) {
        out->array[out->arrays++] = (uint16_t)up(end, 8);
        end = up(end, 8) + 8 * places;
    }
    end = up(end, width);
    /* Newer optimizers have a flag before the table, and their size does not show it. So it is read from its second
     * entry to one past the last: the first block always works on tensor 0. */
    out->table = (uint16_t)(end + (l->steps ? width : 0));
    out->blocks = (uint16_t)blocks;
    out->width = (uint16_t)width;
    end = up(end + width * blocks, 4) + 4 * blocks + (l->scalar ? 0 : 4);
    return up(end, l->scalar == 16 ? 16 : 8) == bytes;
}

static bool fit_lists(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    struct lists l;
    if (!read_lists(arguments, &l))
        return false;
    return lists_fit(&l, false, 8, bytes, out) || lists_fit(&l, false, 4, bytes, out) ||
           lists_fit(&l, true, 8, bytes, out);
}

/* --- PyTorch, ATen/native/cuda/Shape.cu: concatenation, row y of the grid copies tensor y --- */

static bool fit_concatenation(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    const char *index = strstr(arguments, "jLi");
    unsigned places, strides, end;
    if (!index || sscanf(index, "jLi%*uELi%4uELi%4uE", &places, &strides) != 2)
        return false;
    end = (8 + 3 * 4) * places;
    *out = (struct argument_arrays){.told = ARRAYS_BY_Y, .arrays = 1, .places = (uint16_t)places};
    return bytes == up(end + places, 4) + 32 * strides || bytes == end + 32 * strides;
}

/* --- PyTorch, ATen/native/cuda/ForeachReduceOp.cu: block x writes the result of tensor x --- */

static bool fit_results(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    (void)arguments;
    *out = (struct argument_arrays){.told = ARRAYS_BY_X, .arrays = 1, .places = (uint16_t)(bytes / 8)};
    return bytes == 8 * 400 || bytes == 8 * 3200;
}

/* --- PyTorch, ATen/native/cuda/Dropout.cu: a factor, behind the host's own address of it --- */

/* Trap: the factor takes half a word. The other half is left from anything, and both together look like an address. */
static bool fit_factor(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    (void)arguments;
    *out = (struct argument_arrays){.told = ARRAYS_NONE, .places = 1};
    return bytes == 16;
}

/* --- PyTorch, ATen/native/cuda/Reduce.cuh: what is read, written and counted in, at the end of the state --- */

/* Trap: of two results the second is set only where there are two, which the last number tells. Before them are sizes
 * and strides, set for as many dimensions as there are. The rest is what the stack held before. */
static bool fit_reduction(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    enum { LEAST = 972, SOURCE = 64, RESULTS = 56, PARTIAL = 40, SHARED = 32, SEMAPHORES = 24, COUNT = 4 };
    int read = 0;
    sscanf(arguments, "%*uELi%*uENS0_8ReduceOpI%n", &read); /* before there were two numbers, the end was another */
    if (!read || bytes < LEAST || bytes % 8 || strstr(arguments, "complexIdE"))
        return false; /* complex numbers of 16 bytes may end in a gap */
    *out = (struct argument_arrays){
        .told = ARRAYS_BY_COUNT, .places = 1, .table = (uint16_t)(bytes - COUNT), .arrays = 5, .sure = 2};
    static const uint16_t from_end[] = {SOURCE, RESULTS, PARTIAL, SHARED, SEMAPHORES};
    for (unsigned i = 0; i < out->arrays; i++)
        out->array[i] = (uint16_t)(bytes - from_end[i]);
    return true;
}

/* --- PyTorch, ATen/native/cuda/CUDALoops.cuh: tensors with strides, their addresses, the function's numbers --- */

enum { RANK_MAX = 25, OPERANDS_MAX = 8, NUMBERS_MAX = 64 };

/* Where the addresses of so many tensors begin: behind the rank, three words of 4 bytes for each size, the strides. */
static unsigned operands_at(unsigned operands) {
    return up(4 + RANK_MAX * (12 + 4 * operands), 8);
}

/* Trap: as in reductions, sizes and strides are set for as many dimensions as there are. Fewer operands with more
 * numbers take as many bytes: which it is, every launch has to show. */
static bool fit_strided(const char *arguments, uint32_t bytes, struct argument_arrays *out) {
    int skipped = 0;
    sscanf(arguments, "%*uELi%*uEZNS0_%n", &skipped);
    if (!skipped ||
        (!after(arguments + skipped, "22gpu_kernel_impl_nocastI") && !after(arguments + skipped, "15gpu_kernel_implI")))
        return false;
    unsigned n = OPERANDS_MAX;
    while (n && operands_at(n) + 8 * n > bytes)
        n--;
    unsigned start = operands_at(n);
    *out = (struct argument_arrays){.told = ARRAYS_BY_RANK,
                                    .arrays = 1,
                                    .array = {(uint16_t)start},
                                    .places = (uint16_t)((bytes - start) / 8),
                                    .sure = (uint16_t)n};
    return n && bytes - start - 8 * n <= NUMBERS_MAX;
}

/* --- all rules --- */

static const struct rule {
    const char *kernel; /* part of its name */
    bool (*fit)(const char *rest, uint32_t bytes, struct argument_arrays *out);
} rules[] = {
    /* clang-format off */
    {"25multi_tensor_apply_kernelI", fit_lists},
    {"CatArrayBatchedCopy", fit_concatenation},
    {"14lpnorm_cleanupI", fit_results},
    {"13lpmax_cleanupI", fit_results},
    {"19masked_scale_kernelI", fit_factor},
    {"native13reduce_kernelILi", fit_reduction},
    {"native18elementwise_kernelILi", fit_strided},
    /* clang-format on */
};

static uint16_t arrays_enter(const struct argument_arrays *s) {
    uint16_t i = 0;
    while (i < count && memcmp(&known[i], s, sizeof *s) != 0)
        i++;
    if (i == KNOWN_MAX)
        return 0;
    if (i == count)
        known[count++] = *s;
    return (uint16_t)(i + 1);
}

uint16_t argument_arrays_find(const struct layout *l) {
    if (!after(l->name, "_ZN2at6native"))
        return 0;
    for (const struct rule *r = rules; r < rules + sizeof rules / sizeof *rules; r++) {
        const char *at = strstr(l->name, r->kernel);
        struct argument_arrays s;
        for (uint32_t i = 0; at && i < l->parameters; i++)
            if (r->fit(at + strlen(r->kernel), l->size[i], &s) && l->offset[i] % 8 == 0) {
                s.parameter = (uint16_t)i;
                s.offset = l->offset[i];
                s.bytes = l->size[i];
                return arrays_enter(&s);
            }
    }
    return 0;
}

const struct argument_arrays *argument_arrays_at(uint16_t id) {
    return &known[id - 1];
}

static unsigned greatest(const uint8_t *entry, unsigned entries, unsigned width) {
    unsigned most = 0;
    for (const uint8_t *end = entry + entries * width; entry < end; entry += width) {
        unsigned e = width == 2 ? entry[0] | (unsigned)entry[1] << 8 : entry[0];
        most = e > most ? e : most;
    }
    return most;
}

static unsigned number_at(const char *at) {
    int32_t number;
    memcpy(&number, at, sizeof number);
    return number > 0 ? (unsigned)number : 0;
}

static unsigned used_by_table(const struct argument_arrays *s, const char *at, unsigned blocks) {
    bool known = blocks && blocks <= s->blocks;
    return known ? 1 + greatest((const uint8_t *)at + s->table, blocks, s->width) : 0;
}

static bool are_addresses(const char *at, unsigned words, addr_t low, addr_t size) {
    bool all = true;
    for (unsigned i = 0; i < words && all; i++) {
        addr_t p;
        memcpy(&p, at + 8 * i, sizeof p);
        all = p - low < size;
    }
    return all;
}

/* Fewer operands would have their addresses where so many have strides. */
static bool may_be_fewer(const struct argument_arrays *s, const char *at, addr_t low, addr_t size) {
    unsigned n = s->sure - 1;
    while (n && !are_addresses(at + operands_at(n), n, low, size))
        n--;
    return n > 0;
}

static unsigned used(const struct argument_arrays *s, const char *at, struct grid grid) {
    switch ((enum arrays_used)s->told) {
    case ARRAYS_BY_X:
        return grid.x;
    case ARRAYS_BY_Y:
        return grid.y;
    case ARRAYS_BY_TABLE:
        return used_by_table(s, at, grid.x);
    case ARRAYS_BY_COUNT:
        return number_at(at + s->table);
    case ARRAYS_BY_RANK: /* an address would be no such number */
        return number_at(at) - 1 < RANK_MAX ? s->places : 0;
    case ARRAYS_NONE:
        break;
    }
    return 1;
}

unsigned argument_arrays_used(const struct argument_arrays *s, const char *at, struct grid grid, addr_t low,
                              addr_t size) {
    unsigned n = used(s, at, grid);
    bool fits = n <= s->places && are_addresses(at + s->array[0], s->sure, low, size);
    return fits && (s->told != ARRAYS_BY_RANK || !may_be_fewer(s, at, low, size)) ? n : 0;
}
