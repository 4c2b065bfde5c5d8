#include "launch/slots.h"

#include <stdio.h>
#include <string.h>

#include "launch/function.h"

enum { SLOTS_MAX = 128 };
static struct slots known[SLOTS_MAX];
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
static bool lists_fit(const struct lists *l, bool large, unsigned numel, uint32_t bytes, struct slots *out) {
    unsigned scale = large ? LARGE : 1, blocks = scale * LISTS_BLOCKS, width = large ? 2 : 1;
    unsigned places = scale * tensors[l->scalar == 16 ? 2 : l->scalar > 0][l->n - 1], end = 0;
    *out = (struct slots){.told = SLOTS_BY_TABLE, .places = (uint16_t)places};
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

static bool fit_lists(const char *arguments, uint32_t bytes, struct slots *out) {
    struct lists l;
    if (!read_lists(arguments, &l))
        return false;
    return lists_fit(&l, false, 8, bytes, out) || lists_fit(&l, false, 4, bytes, out) ||
           lists_fit(&l, true, 8, bytes, out);
}

/* --- PyTorch, ATen/native/cuda/Shape.cu: concatenation, row y of the grid copies tensor y --- */

static bool fit_concatenation(const char *arguments, uint32_t bytes, struct slots *out) {
    const char *index = strstr(arguments, "jLi");
    unsigned places, strides, end;
    if (!index || sscanf(index, "jLi%*uELi%4uELi%4uE", &places, &strides) != 2)
        return false;
    end = (8 + 3 * 4) * places;
    *out = (struct slots){.told = SLOTS_BY_Y, .arrays = 1, .places = (uint16_t)places};
    return bytes == up(end + places, 4) + 32 * strides || bytes == end + 32 * strides;
}

/* --- PyTorch, ATen/native/cuda/ForeachReduceOp.cu: block x writes the result of tensor x --- */

static bool fit_results(const char *arguments, uint32_t bytes, struct slots *out) {
    (void)arguments;
    *out = (struct slots){.told = SLOTS_BY_X, .arrays = 1, .places = (uint16_t)(bytes / 8)};
    return bytes == 8 * 400 || bytes == 8 * 3200;
}

/* --- PyTorch, ATen/native/cuda/Dropout.cu: a factor, behind the host's own address of it --- */

/* Trap: the factor takes half a word. The other half is left from anything, and both together look like an address. */
static bool fit_factor(const char *arguments, uint32_t bytes, struct slots *out) {
    (void)arguments;
    *out = (struct slots){.told = SLOTS_NONE, .places = 1};
    return bytes == 16;
}

/* --- all rules --- */

static const struct rule {
    const char *kernel; /* part of its name */
    bool (*fit)(const char *rest, uint32_t bytes, struct slots *out);
} rules[] = {
    /* clang-format off */
    {"25multi_tensor_apply_kernelI", fit_lists},
    {"CatArrayBatchedCopy", fit_concatenation},
    {"14lpnorm_cleanupI", fit_results},
    {"13lpmax_cleanupI", fit_results},
    {"19masked_scale_kernelI", fit_factor},
    /* clang-format on */
};

static uint16_t enter(const struct slots *s) {
    uint16_t i = 0;
    while (i < count && memcmp(&known[i], s, sizeof *s) != 0)
        i++;
    if (i == SLOTS_MAX)
        return 0;
    if (i == count)
        known[count++] = *s;
    return (uint16_t)(i + 1);
}

uint16_t slots_find(const struct layout *l) {
    if (!after(l->name, "_ZN2at6native"))
        return 0;
    for (const struct rule *r = rules; r < rules + sizeof rules / sizeof *rules; r++) {
        const char *at = strstr(l->name, r->kernel);
        struct slots s;
        for (uint32_t i = 0; at && i < l->parameters; i++)
            if (r->fit(at + strlen(r->kernel), l->size[i], &s) && l->offset[i] % 8 == 0) {
                s.parameter = (uint16_t)i;
                s.offset = l->offset[i];
                s.bytes = l->size[i];
                return enter(&s);
            }
    }
    return 0;
}

const struct slots *slots_at(uint16_t id) {
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

unsigned slots_used(const struct slots *s, const char *at, struct grid grid) {
    unsigned used = s->told == SLOTS_BY_Y ? grid.y : s->told == SLOTS_NONE ? 1 : grid.x;
    if (s->told == SLOTS_BY_TABLE) {
        if (used == 0 || used > s->blocks)
            return 0;
        used = 1 + greatest((const uint8_t *)at + s->table, used, s->width);
    }
    return used <= s->places ? used : 0;
}
