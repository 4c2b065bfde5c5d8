/* Argument arrays of concatenations, norms, reductions, tensors with strides and factors. */
#include "argument_arrays.h"

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
    CHECK(f->arrays && f->runs == 0);
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
            CHECK(!function(concatenation(v, 128, 1), (size_t)(2720 + off))->arrays);
            CHECK(!function(concatenation(v, 64, 64), (size_t)(3392 + off))->arrays);
        }
        CHECK(!function(concatenation(v, 128, 2), 2720)->arrays);
    }
    CHECK(!function("_ZN2at6native19CatArrayBatchedCopyIfjLi3EEvPT_", 2720)->arrays);
    CHECK(!function("_ZN2at6native19CatArrayBatchedCopy", 2720)->arrays);
}

/* --- norms: block x writes the result of tensor x --- */

TEST(results_of_norms) {
    static const char *const names[] = {"_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE1EfLb0EfEEvPKT3_",
                                        "_ZN2at6native13lpmax_cleanupIfEEvPKT_NS0_19TensorListAddressesEi"};
    begin();
    for (size_t i = 0; i < 2; i++) {
        try_row(function(names[i], 3200), 3200, 400, false);
        try_row(function(names[i], 25600), 25600, 3200, false);
        CHECK(!function(names[i], 3208)->arrays && !function(names[i], 3192)->arrays);
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
        CHECK(f->arrays && f->runs == 0);
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
        CHECK(!function(name, kernels[i].bytes - 4)->arrays);
        CHECK(!function(name, 900)->arrays); /* less than sizes and strides take */
    }
    CHECK(
        !function("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c107complexIdEENS0_7MeanOpsI", 1056)->arrays);
    CHECK(!function("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8OtherOpIfNS0_7MeanOpsI", 1048)->arrays);
    CHECK(
        !function("_ZN2at6native13reduce_kernelILi512ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_", 1048)->arrays);
    CHECK(!function("_ZN4mine13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsI", 1048)->arrays);
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
        CHECK(f->arrays && f->runs == 0);
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
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 600)->arrays);
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 400)->arrays);
    CHECK(!function("_ZN2at6native18elementwise_kernelILi128ELi4EZNS_15other_kernel_implI", 536)->arrays);
    CHECK(!function("_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_22gpu_kernel_impl_nocastI", 536)->arrays);
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
    CHECK(f->arrays && f->runs == 0);
    CHECK_EQ(scan(f, 16, (struct grid){7, 1}, &stale), 0);
    CHECK_EQ(stale, 0);
    f = function(name, 24); /* the array of addresses, or another version's factor */
    CHECK(!f->arrays);
    check_all(f, 24, (struct grid){7, 1});
}
