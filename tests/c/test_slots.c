/* Arrays of pointers inside one parameter: only the places that a launch uses are touched. The layouts are spelt here
 * as PyTorch declares them, filled like its launchers fill them, with live addresses of an earlier use all around. */
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
} buffer; /* of all parameters; the one with slots lies behind a small one */

static void describe(uint64_t handle, struct layout *out) {
    (void)handle;
    *out = layout;
}

/* What is known of a function with this name, whose second parameter has so many bytes. */
static struct function *function(const char *name, size_t bytes) {
    static uint64_t handle;
    layout = (struct layout){.known = true, .parameters = 2, .offset = {0, AHEAD}, .size = {1, (uint16_t)bytes}};
    snprintf(layout.name, sizeof layout.name, "%s", name);
    function_describe = describe;
    return function_of(++handle);
}

static void begin(void) {
    struct allocation a = {.start = LIVE, .bytes = 2 * (STALE - LIVE)};
    l = ledger_new();
    CHECK(ledger_add(l, &a));
    for (addr_t i = 0; i < sizeof buffer.bytes / 8; i++) {
        ledger_block_add(l, LIVE + BLOCK * i, BLOCK);
        ledger_block_add(l, STALE + BLOCK * i, BLOCK);
    }
}

static void fill_stale(void) {
    for (addr_t i = 0; i < sizeof buffer.bytes / 8; i++) {
        addr_t p = STALE + BLOCK * i;
        memcpy(buffer.bytes + 8 * i, &p, 8);
    }
}

/* Both forms of arguments. Returns the touches of LIVE, which come in order; *stale gets how many others there are. */
static uint32_t scan(const struct function *f, size_t bytes, struct grid grid, uint32_t *stale) {
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

static void check_exact(const struct function *f, size_t bytes, struct grid grid, uint32_t expected) {
    uint32_t stale;
    CHECK_EQ(scan(f, bytes, grid, &stale), expected);
    CHECK_EQ(stale, 0);
}

static void check_all(const struct function *f, size_t bytes, struct grid grid) {
    uint32_t stale, live = scan(f, bytes, grid, &stale);
    CHECK(live + stale > bytes / 8 * 3 / 4); /* but the words that hold tables and numbers */
}

/* The first `used` places of each array. */
static void fill_arrays(unsigned arrays, const size_t *at, unsigned used) {
    addr_t p = LIVE;
    for (unsigned i = 0; i < arrays; i++)
        for (unsigned k = 0; k < used; k++, p += BLOCK)
            memcpy(buffer.bytes + AHEAD + at[i] + 8 * k, &p, 8);
}

/* --- lists of tensors --- */

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
    CHECK(f->slots && f->runs == 0);
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
        CHECK(!f->slots && f->runs == 1);
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
    CHECK(function(kernel("18TensorListMetadataILi1E"), 3368)->slots);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t bytes = 8; bytes < 1 << 15; bytes += 8)
            CHECK(!function(kernel(types[i]), bytes)->slots);
    CHECK(!function("_Z25multi_tensor_apply_kernelI18TensorListMetadataILi1EEE", 3368)->slots);
    CHECK(!function("_ZN4apex3optI25multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEE", 3368)->slots);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelI", 3368)->slots);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelINS", 3368)->slots);
    CHECK(!function("_ZN2at6native25multi_tensor_apply_kernelINS1_", 3368)->slots);
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
    CHECK(!slots_find(&layout));
    layout.offset[0] = 8;
    CHECK(slots_find(&layout));
}

TEST(a_function_that_came_back_with_another_layout_is_another) {
    begin();
    struct function *small = function(kernel("18TensorListMetadataILi1E"), 3368);
    functions_forget();
    layout.size[1] = 25768; /* the name is the same, and all words are slots' in both */
    CHECK(function_of(small->handle) != small);
}

/* --- concatenation: row y of the grid copies tensor y --- */

static const char *concatenation(const char *variant, unsigned places, unsigned strides) {
    static char name[256];
    snprintf(name, sizeof name,
             "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c%zuCatArrayBatchedCopy%sINS1_10OpaqueTypeILj2EEEj"
             "Li3ELi%uELi%uELi16ELi8EEEvPcNS1_25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEE",
             strlen("CatArrayBatchedCopy") + strlen(variant), variant, places, strides);
    return name;
}

static void try_row(const struct function *f, size_t bytes, unsigned places, bool by_y) {
    CHECK(f->slots && f->runs == 0);
    for (unsigned used = 1; used <= places; used += used == 1 ? 1 : 31) {
        fill_stale();
        fill_arrays(1, (size_t[]){0}, used);
        check_exact(f, bytes, by_y ? (struct grid){264, used} : (struct grid){used, 1}, used);
    }
    check_all(f, bytes, by_y ? (struct grid){264, 0} : (struct grid){0, 1});
    check_all(f, bytes, by_y ? (struct grid){264, places + 1} : (struct grid){places + 1, 1});
}

TEST(concatenations) {
    static const char *const variants[] = {"", "_contig", "_vectorized", "_alignedK_contig", "_aligned16_contig"};
    begin();
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const char *v = variants[i];
        try_row(function(concatenation(v, 128, 1), 2720), 2720, 128, true);
        try_row(function(concatenation(v, 64, 64), 3392), 3392, 64, true);
        try_row(function(concatenation(v, 128, 1), 2592), 2592, 128, true); /* before there was `isContiguous` */
        for (int off = -8; off <= 8; off += 16) {
            CHECK(!function(concatenation(v, 128, 1), (size_t)(2720 + off))->slots);
            CHECK(!function(concatenation(v, 64, 64), (size_t)(3392 + off))->slots);
        }
        CHECK(!function(concatenation(v, 128, 2), 2720)->slots);
    }
    CHECK(!function("_ZN2at6native19CatArrayBatchedCopyIfjLi3EEvPT_", 2720)->slots);
    CHECK(!function("_ZN2at6native19CatArrayBatchedCopy", 2720)->slots);
}

/* --- norms: block x writes the result of tensor x --- */

TEST(results_of_norms) {
    static const char *const names[] = {"_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE1EfLb0EfEEvPKT3_",
                                        "_ZN2at6native13lpmax_cleanupIfEEvPKT_NS0_19TensorListAddressesEi"};
    begin();
    for (size_t i = 0; i < 2; i++) {
        try_row(function(names[i], 3200), 3200, 400, false);
        try_row(function(names[i], 25600), 25600, 3200, false);
        CHECK(!function(names[i], 3208)->slots && !function(names[i], 3192)->slots);
    }
}

/* --- reductions: the second result's address is set only where there are two --- */

TEST(reductions) {
    static const struct {
        const char *state;
        size_t bytes;
    } kernels[] = {{"ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_", 1048},
                   {"ReduceOpIbNS0_14func_wrapper_tIbZZZNS0_15and_kernel_cudaERNS_14TensorIteratorE", 1040},
                   {"ReduceOpIN3c108BFloat16ENS0_9ArgMaxOpsIfEEjlLi4ELi4EEEEEvT1_", 1064}};
    static char name[256];
    int32_t results;
    begin();
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct {
            const void *source;
            char *result[2];
            void *partial, *shared;
            int *semaphores;
            int64_t first;
            bool accumulates, final;
            int results;
        } *end = (void *)(buffer.bytes + AHEAD + kernels[i].bytes - sizeof *end);
        snprintf(name, sizeof name, "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8%s", kernels[i].state);
        const struct function *f = function(name, kernels[i].bytes);
        CHECK(f->slots && f->runs == 0);
        for (results = 0; results < 4; results++) {
            fill_stale();
            end->source = (void *)(uintptr_t)LIVE;
            end->result[0] = (char *)(uintptr_t)(LIVE + BLOCK);
            end->partial = (void *)(uintptr_t)(LIVE + 2 * BLOCK);
            end->shared = NULL;
            end->semaphores = (int *)(uintptr_t)(LIVE + 3 * BLOCK);
            end->results = results;
            if (results == 1)
                check_exact(f, kernels[i].bytes, (struct grid){7, 1}, 4);
            else
                check_all(f, kernels[i].bytes, (struct grid){7, 1});
        }
        end->results = 1;
        end->result[0] = (char *)(uintptr_t)42; /* no address: it is another layout */
        check_all(f, kernels[i].bytes, (struct grid){7, 1});
        CHECK(!function(name, kernels[i].bytes - 4)->slots);
        CHECK(!function(name, 900)->slots); /* less than sizes and strides take */
    }
    CHECK(
        !function("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c107complexIdEENS0_7MeanOpsI", 1056)->slots);
    CHECK(!function("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8OtherOpIfNS0_7MeanOpsI", 1048)->slots);
    CHECK(
        !function("_ZN2at6native13reduce_kernelILi512ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_", 1048)->slots);
    CHECK(!function("_ZN4mine13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsI", 1048)->slots);
}

/* --- tensors with strides: sizes and strides are set for as many dimensions as there are --- */

#define STRIDED(operands, numbers)                                                                                     \
    struct {                                                                                                           \
        int rank;                                                                                                      \
        struct {                                                                                                       \
            uint32_t divisor, factor, shift;                                                                           \
        } size[25];                                                                                                    \
        uint32_t stride[25][operands];                                                                                 \
        char *data[operands];                                                                                          \
        char number[numbers];                                                                                          \
    }

/* Strides that are set are no addresses. */
static void set_strides(unsigned operands) {
    for (unsigned fewer = 1; fewer < operands; fewer++)
        memset(buffer.bytes + AHEAD + (4 + 25 * (12 + 4 * fewer) + 7) / 8 * 8, 0, 8);
}

static void try_strided(size_t bytes, size_t data, unsigned operands, size_t number) {
    static const char *const kernels[] = {"22gpu_kernel_impl_nocastINS0_13BinaryFunctorIfff",
                                          "15gpu_kernel_implIZZZNS0_"};
    static char name[256];
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        snprintf(name, sizeof name, "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_%s", kernels[i]);
        const struct function *f = function(name, bytes);
        CHECK(f->slots && f->runs == 0);
        for (int32_t rank = -1; rank < 28; rank++) {
            fill_stale();
            set_strides(operands);
            memcpy(buffer.bytes + AHEAD, &rank, sizeof rank);
            fill_arrays(1, &data, operands);
            memset(buffer.bytes + AHEAD + number, 0, bytes - number);
            if (rank >= 1 && rank <= 25)
                check_exact(f, bytes, (struct grid){7, 1}, operands);
            else
                check_all(f, bytes, (struct grid){7, 1});
        }
        int32_t rank = 2; /* what should be addresses are none: it is another layout */
        fill_stale();
        memcpy(buffer.bytes + AHEAD, &rank, sizeof rank);
        set_strides(operands);
        memset(buffer.bytes + AHEAD + data, 0, bytes - data);
        uint32_t stale;
        CHECK_EQ(scan(f, bytes, (struct grid){7, 1}, &stale), 0);
        CHECK(stale > 0);
    }
}
/* Two operands, and so many bytes of numbers that three or four with fewer of them would take as much. */
static void try_many_numbers(size_t bytes, size_t data) {
    const struct function *f =
        function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZNS0_", bytes);
    int32_t rank = 2;
    for (int numbers = 0; numbers < 2; numbers++) {
        fill_stale();
        memcpy(buffer.bytes + AHEAD, &rank, sizeof rank);
        fill_arrays(1, &data, 2);
        if (numbers)
            memset(buffer.bytes + AHEAD + data + 16, 42, bytes - data - 16);
        void *parameters[] = {buffer.bytes, buffer.bytes + AHEAD};
        op = (struct op){.touches = touches};
        scan_parameters(&op, l, f, (struct grid){7, 1}, parameters);
        bool found[2] = {false, false};
        for (uint32_t i = 0; i < op.count; i++)
            for (addr_t k = 0; k < 2; k++)
                found[k] = found[k] || touches[i].start == LIVE + k * BLOCK;
        CHECK(found[0] && found[1]);
    }
}

#define TRY_STRIDED(operands, numbers)                                                                                 \
    try_strided(sizeof(STRIDED(operands, numbers)), offsetof(STRIDED(operands, numbers), data), operands,              \
                offsetof(STRIDED(operands, numbers), number))

TEST(tensors_with_strides) {
    begin();
    CHECK_EQ(sizeof(STRIDED(2, 16)), 536); /* as on an H200 */
    CHECK_EQ(sizeof(STRIDED(3, 16)), 648);
    TRY_STRIDED(1, 1);
    TRY_STRIDED(2, 16);
    TRY_STRIDED(2, 24);
    TRY_STRIDED(3, 16);
    TRY_STRIDED(4, 64);
    TRY_STRIDED(5, 1);
    for (size_t numbers = 8; numbers < 300; numbers += 8)
        try_many_numbers(504 + 16 + numbers, 504);
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 600)->slots);
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 400)->slots);
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS_15other_kernel_implI", 536)->slots);
    CHECK(!function("_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_22gpu_kernel_impl_nocastI", 536)->slots);
}

/* --- a factor: a parameter without addresses --- */

TEST(factors) {
    static const char *const name =
        "_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_43_GLOBAL__N__50f1b6c4_10_Dropout_cu_0e96ed38"
        "19masked_scale_kernelIbN3c108BFloat16EfEEvRNS_6TensorERKS6_S9_T1_EUlS5_bE_St5arrayIPcLm3EEEEviT0_T1_";
    uint32_t stale;
    begin();
    fill_stale();
    const struct function *f = function(name, 16);
    CHECK(f->slots && f->runs == 0);
    CHECK_EQ(scan(f, 16, (struct grid){7, 1}, &stale), 0);
    CHECK_EQ(stale, 0);
    f = function(name, 24); /* the array of addresses, or another version's factor */
    CHECK(!f->slots);
    check_all(f, 24, (struct grid){7, 1});
}
