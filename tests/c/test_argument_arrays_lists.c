/* Argument arrays of lists of tensors: kernels of PyTorch that work on many tensors at once. */
#include "argument_arrays.h"

struct lists {
    const char *type; /* as in the kernel's name */
    size_t bytes;
    unsigned arrays;
    size_t array[8];
    unsigned places;
    size_t table;
    unsigned width, blocks;
    bool flag; /* a byte before the table, which then is 1 */
};

static const char *kernel(const char *type) {
    static char name[256];
    snprintf(name, sizeof name,
             "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9896c25multi_tensor_apply_kernelI"
             "NS1_%sEENS1_21BinaryOpScalarFunctorIfLi1ELi1ELi0EEEJSt5minusIfEfEEEvT_T0_DpT1_",
             type);
    return name;
}

static void set_entry(const struct lists *k, unsigned block, unsigned place) {
    uint16_t entry = (uint16_t)place;
    memcpy(buffer.bytes + AHEAD + k->table + block * k->width, &entry, k->width);
}

/* `grid` blocks share `used` tensors. */
static void fill_lists(const struct lists *k, unsigned used, unsigned grid) {
    fill_stale();
    fill_arrays(k->arrays, k->array, used);
    if (k->flag)
        buffer.bytes[AHEAD + k->table - k->width] = 1;
    for (unsigned b = 0; b < grid; b++)
        set_entry(k, b, b < used ? b : used - 1);
    if (!k->flag && grid < k->blocks)
        set_entry(k, grid, 0); /* may be looked at, see there */
}

static void try_lists(const struct lists *k) {
    begin();
    const struct function *f = function(kernel(k->type), k->bytes);
    CHECK(f->arrays && f->runs == 0);
    for (unsigned used = 1; used <= k->places && used < k->blocks; used += used == 1 ? 1 : 17) {
        fill_lists(k, used, used);
        check_exact(f, k->bytes, (struct grid){used, 1}, k->arrays * used);
        fill_lists(k, used, k->blocks - 1);
        check_exact(f, k->bytes, (struct grid){k->blocks - 1, 1}, k->arrays * used);
    }
    fill_lists(k, 3, 7);
    check_all(f, k->bytes, (struct grid){0, 1});
    check_all(f, k->bytes, (struct grid){k->blocks + 1, 1});
    set_entry(k, 5, k->places);
    check_all(f, k->bytes, (struct grid){7, 1});
    set_entry(k, 5, k->places - 1); /* whatever their order is */
    uint32_t stale, live = scan(f, k->bytes, (struct grid){7, 1}, &stale);
    CHECK_EQ(live + stale, k->arrays * k->places);
    for (int off = -8; off <= 8; off += 16) {
        f = function(kernel(k->type), k->bytes + (size_t)off);
        CHECK(!f->arrays && f->runs == 1);
        check_all(f, k->bytes + (size_t)off, (struct grid){7, 1});
    }
}

#define NOTHING
/* The fields of a structure of n lists of m tensors, and what the test must know of it. */
#define FIELDS(n, m, numel_t, more, entry_t, b)                                                                        \
    const void *addresses[n][m];                                                                                       \
    numel_t numel[m];                                                                                                  \
    more entry_t block_to_tensor[b];                                                                                   \
    int block_to_chunk[b];
#define KNOWN(id, text, n, m, entry_t, b)                                                                              \
    .type = (text), .bytes = sizeof(struct id), .arrays = (n), .array = {0, 8 * (m), 16 * (m), 24 * (m), 32 * (m)},    \
    .places = (m), .table = offsetof(struct id, block_to_tensor), .width = sizeof(entry_t), .blocks = (b)

#define LISTS(id, text, size, n, m, numel_t, entry_t, b)                                                               \
    struct id {                                                                                                        \
        FIELDS(n, m, numel_t, NOTHING, entry_t, b)                                                                     \
        int start_tensor;                                                                                              \
    };                                                                                                                 \
    _Static_assert(sizeof(struct id) == (size), #id);                                                                  \
    TEST(id) {                                                                                                         \
        try_lists(&(struct lists){KNOWN(id, text, n, m, entry_t, b)});                                                 \
    }

#define SCALARS(id, text, size, n, m, scalar_t, entry_t, b)                                                            \
    struct id {                                                                                                        \
        FIELDS(n, m, int64_t, scalar_t scalar[m];, entry_t, b)                                                         \
    };                                                                                                                 \
    _Static_assert(sizeof(struct id) == (size), #id);                                                                  \
    TEST(id) {                                                                                                         \
        try_lists(&(struct lists){KNOWN(id, text, n, m, entry_t, b)});                                                 \
    }

/* more: a field, or NOTHING. */
#define STEPS(id, text, size, n, m, has_flag, more, entry_t, b)                                                        \
    struct id {                                                                                                        \
        FIELDS(n, m, int64_t, const void *steps[m]; more, entry_t, b)                                                  \
        int start_tensor;                                                                                              \
    };                                                                                                                 \
    _Static_assert(sizeof(struct id) == (size), #id);                                                                  \
    TEST(id) {                                                                                                         \
        struct lists k = {KNOWN(id, text, n, m, entry_t, b), .flag = (has_flag)};                                      \
        k.array[k.arrays++] = offsetof(struct id, steps);                                                              \
        try_lists(&k);                                                                                                 \
    }

typedef struct {
    _Alignas(16) double part[2];
} complex_double;

/* clang-format off */
/* The sizes of all with 320 blocks, but for small_5 and the old ones, were read in the binaries of PyTorch 2.11. */
LISTS(small_1, "18TensorListMetadataILi1E", 3368, 1, 110, int64_t, uint8_t, 320)
LISTS(small_2, "18TensorListMetadataILi2E", 3144, 2, 64, int64_t, uint8_t, 320)
LISTS(small_3, "18TensorListMetadataILi3E", 3144, 3, 48, int64_t, uint8_t, 320)
LISTS(small_4, "18TensorListMetadataILi4E", 3048, 4, 36, int64_t, uint8_t, 320)
LISTS(small_5, "18TensorListMetadataILi5E", 3048, 5, 30, int64_t, uint8_t, 320)
LISTS(old_1, "18TensorListMetadataILi1E", 2928, 1, 110, int, uint8_t, 320)
LISTS(old_4, "18TensorListMetadataILi4E", 2904, 4, 36, int, uint8_t, 320)
LISTS(large_1, "18TensorListMetadataILi1ELb1E", 25768, 1, 770, int64_t, uint16_t, 2240)
LISTS(large_2, "18TensorListMetadataILi2E", 24200, 2, 448, int64_t, uint16_t, 2240)
LISTS(large_3, "18TensorListMetadataILi3E", 24200, 3, 336, int64_t, uint16_t, 2240)
LISTS(large_4, "18TensorListMetadataILi4E", 23528, 4, 252, int64_t, uint16_t, 2240)
LISTS(large_5, "18TensorListMetadataILi5E", 23528, 5, 210, int64_t, uint16_t, 2240)
SCALARS(scalars_1, "28TensorListScalarListMetadataIfLi1E", 3520, 1, 96, float, uint8_t, 320)
SCALARS(scalars_2, "28TensorListScalarListMetadataIdLi2E", 3648, 2, 64, double, uint8_t, 320)
SCALARS(scalars_3, "28TensorListScalarListMetadataIsLi3E", 3232, 3, 48, short, uint8_t, 320)
SCALARS(scalars_4, "28TensorListScalarListMetadataIhLi4E", 3080, 4, 36, char, uint8_t, 320)
SCALARS(complex_1, "28TensorListScalarListMetadataIN3c107complexIfEELi1E", 3904, 1, 96, double, uint8_t, 320)
SCALARS(complex_double_1, "28TensorListScalarListMetadataIN3c107complexIdEELi1E", 3904, 1, 72, complex_double,
        uint8_t, 320)
SCALARS(complex_double_2, "28TensorListScalarListMetadataIN3c107complexIdEELi2E", 4000, 2, 60, complex_double,
        uint8_t, 320)
SCALARS(complex_double_4, "28TensorListScalarListMetadataIN3c107complexIdEELi4E", 3616, 4, 36, complex_double,
        uint8_t, 320)
SCALARS(large_scalars_1, "28TensorListScalarListMetadataIfLi1E", 26880, 1, 672, float, uint16_t, 2240)
SCALARS(large_complex_2, "28TensorListScalarListMetadataIN3c107complexIdEELi2E", 30240, 2, 420, complex_double,
        uint16_t, 2240)
STEPS(steps_3, "32FusedOptimizerTensorListMetadataILi3E", 3528, 3, 48, false, NOTHING, uint8_t, 320)
STEPS(steps_4, "32FusedOptimizerTensorListMetadataILi4E", 3336, 4, 36, false, NOTHING, uint8_t, 320)
STEPS(steps_5, "32FusedOptimizerTensorListMetadataILi5E", 3288, 5, 30, false, NOTHING, uint8_t, 320)
STEPS(steps_4_flag, "32FusedOptimizerTensorListMetadataILi4E", 3336, 4, 36, true, bool flag;, uint8_t, 320)
STEPS(large_steps_4, "32FusedOptimizerTensorListMetadataILi4E", 25544, 4, 252, false, NOTHING, uint16_t, 2240)
STEPS(large_steps_4_flag, "32FusedOptimizerTensorListMetadataILi4E", 25544, 4, 252, true, bool flag;, uint16_t, 2240)
/* clang-format on */

TEST(a_name_that_says_less_is_not_believed) {
    static const char *const types[] = {"18TensorListMetadataILi6E",
                                        "18TensorListMetadataILi16E",
                                        "18TensorListMetadataIfLi1E",
                                        "18TensorListMetadataLi1E",
                                        "28TensorListScalarListMetadataILi1E",
                                        "28TensorListScalarListMetadataIN3c104HalfELi1E",
                                        ""};
    begin();
    CHECK(function(kernel("18TensorListMetadataILi1E"), 3368)->arrays);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t bytes = 8; bytes < 1 << 15; bytes += 8)
            CHECK(!function(kernel(types[i]), bytes)->arrays);
    CHECK(!function("_Z25multi_tensor_apply_kernelI18TensorListMetadataILi1EEE", 3368)->arrays);
    CHECK(!function("_ZN4apex3optI25multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEE", 3368)->arrays);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelI", 3368)->arrays);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelINS", 3368)->arrays);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelINS1_", 3368)->arrays);
}

TEST(a_launch_that_uses_nothing_known_is_unmatched) {
    begin();
    memset(buffer.bytes, 0, sizeof buffer);
    uint32_t stale;
    CHECK_EQ(scan(function(kernel("18TensorListMetadataILi1E"), 3368), 3368, (struct grid){1, 1}, &stale), 0);
    CHECK(stale == 0 && op.flags & OP_UNMATCHED);
}

TEST(a_parameter_out_of_step_is_not_believed) {
    begin();
    layout = (struct layout){.known = true, .parameters = 1, .offset = {4}, .size = {3368}};
    snprintf(layout.name, sizeof layout.name, "%s", kernel("18TensorListMetadataILi1E"));
    CHECK(!argument_arrays_find(&layout));
    layout.offset[0] = 8;
    CHECK(argument_arrays_find(&layout));
}

TEST(a_function_that_came_back_with_another_layout_is_another) {
    begin();
    struct function *small = function(kernel("18TensorListMetadataILi1E"), 3368);
    functions_forget();
    layout.size[1] = 25768; /* the name is the same, and all words are of arrays in both */
    CHECK(function_of(small->handle) != small);
}
