/* Blocks in the ledger, and the extent of a touch. */
#include "ledger/ledger.h"

#include "test.h"

#ifdef __SANITIZE_THREAD__ /* 40 times slower */
enum { MANY = 20 * 1000 };
#else
enum { MANY = 1000 * 1000 };
#endif

static struct ledger *l;

static void allocate(addr_t start, uint64_t bytes) {
    struct allocation a = {.start = start, .bytes = bytes};
    CHECK(ledger_add(l, &a));
}

static void begin(void) {
    l = ledger_new();
    allocate(0x10000, 0x10000);
}

#define CHECK_EXTENT(p, first, end, told)                                                                              \
    do {                                                                                                               \
        struct touch t_ = {.mode = TOUCH_READ};                                                                        \
        struct allocation a_;                                                                                          \
        CHECK(ledger_extent(l, (p), &t_) && ledger_find(l, (p), &a_));                                                 \
        CHECK_EQ(t_.start, (first));                                                                                   \
        CHECK_EQ(t_.start + t_.bytes, (end));                                                                          \
        CHECK_EQ(t_.source, (told));                                                                                   \
        CHECK_EQ(t_.allocation, a_.id);                                                                                \
        CHECK_EQ(t_.mode, TOUCH_READ);                                                                                 \
        ledger_check(l);                                                                                               \
    } while (0)

static bool unused(addr_t p) {
    struct touch t;
    bool known = ledger_extent(l, p, &t);
    ledger_check(l);
    return !known;
}

TEST(nothing_around_an_address_in_no_allocation) {
    begin();
    struct touch t;
    CHECK(!ledger_extent(l, 0xffff, &t));
    CHECK(!ledger_extent(l, 0x20000, &t));
    CHECK(!ledger_extent(l, 0, &t));
    CHECK(!ledger_extent(l, UINT64_MAX, &t));
}

static addr_t last_block(addr_t from, addr_t end) {
    struct touch t;
    return ledger_last_block(l, from, end, &t) ? t.start + t.bytes : 0;
}

TEST(the_last_block_of_a_range) {
    begin();
    CHECK_EQ(last_block(0x10000, 0x20000), 0);
    ledger_block_add(l, 0x10000, 0x1000);
    ledger_block_add(l, 0x14000, 0x2000);
    ledger_block_add(l, 0x18000, 0x1000);
    CHECK_EXTENT(0x10800, 0x10000, 0x11000, SOURCE_FRAMEWORK);
    CHECK_EQ(last_block(0x10000, 0x20000), 0x19000);
    CHECK_EQ(last_block(0x10000, 0x18000), 0x16000);
    CHECK_EQ(last_block(0x14001, 0x18000), 0);
    CHECK_EQ(last_block(0x10000, 0x10000), 0);
    CHECK(ledger_block_remove(l, 0x18000));
    CHECK_EQ(last_block(0x10000, 0x20000), 0x16000);
    CHECK(ledger_block_remove(l, 0x14000));
    CHECK(ledger_block_remove(l, 0x10000));
    CHECK_EQ(last_block(0, 0x20000), 0);
}

TEST(the_whole_allocation_when_only_its_start_is_seen) {
    begin();
    CHECK_EXTENT(0x10000, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x10000, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EQ(ledger_blocks(l), 0);
}

TEST(the_next_observed_pointer_ends_an_extent) {
    begin();
    CHECK_EXTENT(0x10000, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x18000, 0x18000, 0x20000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x10000, 0x10000, 0x18000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x14000, 0x14000, 0x18000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x10000, 0x10000, 0x14000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x1c000, 0x1c000, 0x20000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x18000, 0x18000, 0x1c000, SOURCE_OBSERVED);
    CHECK_EQ(ledger_blocks(l), 0);
}

TEST(a_pointer_not_aligned_like_data_is_not_noted) {
    begin();
    CHECK_EXTENT(0x14008, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x14010, 0x14010, 0x20000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x14008, 0x10000, 0x14010, SOURCE_OBSERVED);
    CHECK_EXTENT(0x14018, 0x14010, 0x20000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x1ffff, 0x14010, 0x20000, SOURCE_OBSERVED);
}

TEST(observed_pointers_of_one_allocation_do_not_reach_into_the_next) {
    begin();
    allocate(0x20000, 0x10000);
    allocate(0x8000, 0x8000);
    CHECK_EXTENT(0x1fff0, 0x1fff0, 0x20000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x20000, 0x20000, 0x30000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x8000, 0x8000, 0x10000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x28000, 0x28000, 0x30000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x10000, 0x10000, 0x1fff0, SOURCE_OBSERVED);
}

TEST(a_framework_block_is_the_extent_of_all_its_addresses) {
    begin();
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK_EQ(ledger_blocks(l), 1);
    CHECK_EXTENT(0x12000, 0x12000, 0x13000, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x12345, 0x12000, 0x13000, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x12ff0, 0x12000, 0x13000, SOURCE_FRAMEWORK);
    CHECK(unused(0x13000) && unused(0x11fff) && unused(0x10000));
    CHECK_EQ(ledger_blocks(l), 1);
}

TEST(a_framework_block_over_observed_pointers_replaces_them) {
    begin();
    for (addr_t p = 0x10000; p < 0x20000; p += 0x1000)
        CHECK_EXTENT(p, p, 0x20000, p == 0x10000 ? SOURCE_ALLOCATION : SOURCE_OBSERVED);
    ledger_block_add(l, 0x12800, 0x2000);
    CHECK_EXTENT(0x13000, 0x12800, 0x14800, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x147ff, 0x12800, 0x14800, SOURCE_FRAMEWORK);
    CHECK(unused(0x12000) && unused(0x14801) && unused(0x15000)); /* nor is what was observed beside it */
}

TEST(a_removed_framework_block_simply_goes) {
    begin();
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK(!ledger_block_remove(l, 0x12001));
    CHECK(!ledger_block_remove(l, 0x11fff));
    CHECK(ledger_block_remove(l, 0x12000));
    CHECK(!ledger_block_remove(l, 0x12000));
    CHECK_EQ(ledger_blocks(l), 0);
    CHECK(unused(0x10000) && unused(0x12000));
}

TEST(a_block_given_out_again_is_as_the_first_time) {
    begin();
    for (int step = 0; step < 3; step++) {
        ledger_block_add(l, 0x12000, 0x1000);
        ledger_block_add(l, 0x13000, 0x1000);
        CHECK_EXTENT(0x12800, 0x12000, 0x13000, SOURCE_FRAMEWORK);
        CHECK_EQ(ledger_blocks(l), 2);
        CHECK(ledger_block_remove(l, 0x12000));
        CHECK(ledger_block_remove(l, 0x13000));
        CHECK(unused(0x12800) && unused(0x13000));
        CHECK_EQ(ledger_blocks(l), 0);
        ledger_check(l);
    }
    ledger_block_add(l, 0x12800, 0x1000); /* the place is needed for something else */
    CHECK_EXTENT(0x13000, 0x12800, 0x13800, SOURCE_FRAMEWORK);
    CHECK(unused(0x12000) && unused(0x13800));
    CHECK(!ledger_block_remove(l, 0x12000));
    CHECK_EQ(ledger_blocks(l), 1);
    ledger_check(l);
}

TEST(what_was_given_back_goes_with_its_allocation) {
    begin();
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK(ledger_block_remove(l, 0x12000));
    CHECK(ledger_remove(l, 0x10000, NULL));
    allocate(0x10000, 0x8000);
    ledger_check(l);
    CHECK_EXTENT(0x12000, 0x12000, 0x18000, SOURCE_OBSERVED);
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK_EXTENT(0x12000, 0x12000, 0x13000, SOURCE_FRAMEWORK);
    ledger_check(l);
}

TEST(a_block_outside_of_allocations_leaves_nothing_behind) {
    begin();
    ledger_block_add(l, 0x40000, 0x1000);
    CHECK(ledger_block_remove(l, 0x40000));
    allocate(0x40000, 0x1000);
    CHECK_EXTENT(0x40000, 0x40000, 0x41000, SOURCE_ALLOCATION);
    ledger_check(l);
}

TEST(a_framework_block_replaces_those_it_overlaps) {
    begin();
    ledger_block_add(l, 0x12000, 0x1000);
    ledger_block_add(l, 0x13000, 0x1000);
    ledger_block_add(l, 0x14000, 0x1000);
    CHECK_EQ(ledger_blocks(l), 3);
    ledger_block_add(l, 0x12800, 0x1000);
    CHECK_EQ(ledger_blocks(l), 2);
    CHECK_EXTENT(0x12800, 0x12800, 0x13800, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x14000, 0x14000, 0x15000, SOURCE_FRAMEWORK);
    ledger_block_add(l, 0x12800, 0x100);
    CHECK_EXTENT(0x12800, 0x12800, 0x12900, SOURCE_FRAMEWORK);
    ledger_block_add(l, 0x10000, 0x10000);
    CHECK_EQ(ledger_blocks(l), 1);
    CHECK_EXTENT(0x15555, 0x10000, 0x20000, SOURCE_FRAMEWORK);
}

TEST(an_impossible_block_is_refused) {
    begin();
    ledger_block_add(l, 0x12000, 0);
    ledger_block_add(l, 0, 0x1000);
    ledger_block_add(l, UINT64_MAX - 0xfff, 0x1000);
    CHECK_EQ(ledger_blocks(l), 0);
}

TEST(a_framework_block_may_span_allocations) {
    begin();
    allocate(0x20000, 0x10000);
    ledger_block_add(l, 0x18000, 0x10000);
    CHECK_EXTENT(0x18000, 0x18000, 0x28000, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x20000, 0x18000, 0x28000, SOURCE_FRAMEWORK);
    CHECK_EQ(ledger_block_tell(l, 0x18000, 16), 1);
    CHECK_EQ(ledger_block_tell(l, 0x20000, 16), 2);
    CHECK(ledger_remove(l, 0x20000, NULL));
    CHECK_EQ(ledger_blocks(l), 0);
    CHECK(unused(0x18000));
    ledger_block_add(l, 0x18000, 0x10000);
    CHECK_EXTENT(0x18000, 0x18000, 0x28000, SOURCE_FRAMEWORK);
    CHECK(ledger_remove(l, 0x10000, NULL));
    CHECK_EQ(ledger_blocks(l), 0);
    ledger_check(l);
}

TEST(a_framework_block_may_end_beyond_its_allocation) {
    begin();
    ledger_block_add(l, 0x18000, 0x8000);
    CHECK_EXTENT(0x1ffff, 0x18000, 0x20000, SOURCE_FRAMEWORK);
    ledger_block_add(l, 0x18000, 0x8001);
    CHECK_EXTENT(0x18000, 0x18000, 0x20001, SOURCE_FRAMEWORK);
    struct touch t;
    CHECK(!ledger_extent(l, 0x20000, &t));
}

TEST(a_framework_block_may_come_before_its_allocation) {
    l = ledger_new();
    struct touch t;
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK(!ledger_extent(l, 0x12000, &t));
    allocate(0x10000, 0x10000);
    CHECK_EXTENT(0x12800, 0x12000, 0x13000, SOURCE_FRAMEWORK);
}

TEST(blocks_go_with_their_allocation) {
    begin();
    allocate(0x20000, 0x10000);
    CHECK_EXTENT(0x14000, 0x14000, 0x20000, SOURCE_OBSERVED);
    ledger_block_add(l, 0x12000, 0x1000);
    ledger_block_add(l, 0x20000, 0x1000);
    CHECK(ledger_remove(l, 0x10000, NULL));
    ledger_check(l);
    CHECK_EQ(ledger_blocks(l), 1);
    allocate(0x10000, 0x10000);
    CHECK_EXTENT(0x10000, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EXTENT(0x20fff, 0x20000, 0x21000, SOURCE_FRAMEWORK);
    CHECK(unused(0x28000));
}

TEST(a_block_that_a_library_told_is_not_split) {
    begin();
    CHECK_EQ(ledger_block_tell(l, 0x12000, 0x4000), 1);
    CHECK_EXTENT(0x12000, 0x12000, 0x16000, SOURCE_LIBRARY);
    CHECK_EXTENT(0x13000, 0x12000, 0x16000, SOURCE_LIBRARY);
    CHECK_EXTENT(0x10000, 0x10000, 0x12000, SOURCE_OBSERVED);
    CHECK_EXTENT(0x16000, 0x16000, 0x20000, SOURCE_OBSERVED);
    CHECK_EQ(ledger_blocks(l), 0); /* of the framework's */
    CHECK(!ledger_block_remove(l, 0x12000));
}

TEST(the_larger_of_two_blocks_that_a_library_told_holds) {
    begin();
    CHECK_EQ(ledger_block_tell(l, 0x12000, 0x2000), 1);
    CHECK_EQ(ledger_block_tell(l, 0x13000, 0x1000), 1);
    CHECK_EXTENT(0x13000, 0x12000, 0x14000, SOURCE_LIBRARY);
    CHECK_EQ(ledger_block_tell(l, 0x11000, 0x8000), 1);
    CHECK_EXTENT(0x13000, 0x11000, 0x19000, SOURCE_LIBRARY);
    CHECK_EQ(ledger_block_tell(l, 0x18000, 0x2000), 1); /* neither inside the other: what came first is cut */
    CHECK_EXTENT(0x17fff, 0x11000, 0x18000, SOURCE_LIBRARY);
    CHECK_EXTENT(0x18000, 0x18000, 0x1a000, SOURCE_LIBRARY);
}

TEST(a_library_replaces_what_was_observed_and_not_what_the_framework_told) {
    begin();
    for (addr_t p = 0x11000; p < 0x20000; p += 0x1000)
        CHECK_EXTENT(p, p, 0x20000, SOURCE_OBSERVED);
    CHECK_EQ(ledger_block_tell(l, 0x12800, 0x2000), 1);
    CHECK_EXTENT(0x13000, 0x12800, 0x14800, SOURCE_LIBRARY);
    CHECK_EXTENT(0x12000, 0x12000, 0x12800, SOURCE_OBSERVED);
    ledger_block_add(l, 0x16000, 0x1000);
    CHECK_EQ(ledger_block_tell(l, 0x15000, 0x3000), 1);
    CHECK_EQ(ledger_block_tell(l, 0x16800, 0x3000), 1);
    CHECK_EQ(ledger_block_tell(l, 0x12800, 0x8000), 1);
    CHECK_EXTENT(0x16800, 0x16000, 0x17000, SOURCE_FRAMEWORK);
    CHECK_EXTENT(0x12800, 0x12800, 0x14800, SOURCE_LIBRARY);
    ledger_block_add(l, 0x12800, 0x1000);
    CHECK_EXTENT(0x12800, 0x12800, 0x13800, SOURCE_FRAMEWORK);
    CHECK(unused(0x13808) && unused(0x15000));
}

TEST(a_library_tells_nothing_beyond_an_allocation) {
    begin();
    allocate(0x20000, 0x10000);
    CHECK_EQ(ledger_block_tell(l, 0x8000, 0x1000), 0);
    CHECK_EQ(ledger_block_tell(l, 0x8000, 0x10000), 0);
    CHECK_EQ(ledger_block_tell(l, 0x18000, 0x8001), 1);
    CHECK_EQ(ledger_block_tell(l, 0x18000, 0), 0);
    CHECK_EQ(ledger_block_tell(l, 0x18000, UINT64_MAX), 0);
    CHECK_EXTENT(0x18008, 0x10000, 0x20000, SOURCE_ALLOCATION);
    CHECK_EQ(ledger_block_tell(l, 0x18000, 0x8000), 1);
    CHECK_EXTENT(0x18008, 0x18000, 0x20000, SOURCE_LIBRARY);
    CHECK(ledger_remove(l, 0x10000, NULL));
    allocate(0x10000, 0x10000);
    CHECK_EXTENT(0x18008, 0x10000, 0x20000, SOURCE_ALLOCATION);
}

TEST(what_libraries_tell_is_bounded_too) {
    begin();
    allocate(0x100000, 0x100000);
    for (addr_t p = 0x100000; p < 0x200000; p += 16)
        CHECK_EQ(ledger_block_tell(l, p, 16), 2);
    CHECK_EXTENT(0x10fff0, 0x10fff0, 0x110000, SOURCE_LIBRARY); /* the 4096th */
    CHECK_EXTENT(0x180000, 0x110000, 0x200000, SOURCE_OBSERVED);
}

TEST(at_most_4096_pointers_are_noted_in_an_allocation) {
    begin();
    struct touch t;
    allocate(0x100000, 0x100000);
    for (addr_t p = 0x100010; p < 0x200000; p += 16)
        CHECK(ledger_extent(l, p, &t));
    ledger_check(l);
    CHECK_EXTENT(0x110000, 0x110000, 0x200000, SOURCE_OBSERVED); /* the 4096th */
    CHECK_EXTENT(0x110010, 0x110000, 0x200000, SOURCE_OBSERVED); /* no more */
    CHECK_EXTENT(0x18000, 0x18000, 0x20000, SOURCE_OBSERVED);    /* another allocation has its own */
    CHECK_EQ(ledger_block_tell(l, 0x110010, 0x10), 2);
    CHECK_EXTENT(0x110010, 0x110000, 0x200000, SOURCE_OBSERVED); /* nor of libraries' blocks */
    ledger_block_add(l, 0x100000, 0x8000);
    CHECK_EQ(ledger_block_tell(l, 0x110010, 0x10), 2);
    CHECK_EXTENT(0x110010, 0x110010, 0x110020, SOURCE_LIBRARY); /* there is room again */
}

TEST(a_million_blocks_in_one_allocation) {
    l = ledger_new();
    allocate(0x7f0000000000, MANY * 0x1000ull);
    /* 7919 has no common factor with MANY: every block once, in an order that is not sorted */
    for (uint64_t i = 0, k = 0; i < MANY; i++, k = (k + 7919) % MANY)
        ledger_block_add(l, 0x7f0000000000 + k * 0x1000, 0x800);
    CHECK_EQ(ledger_blocks(l), MANY);
    ledger_check(l);
    for (uint64_t k = 0; k < MANY; k++) {
        struct touch t;
        addr_t start = 0x7f0000000000 + k * 0x1000;
        CHECK(ledger_extent(l, start + k % 0x800, &t));
        CHECK_EQ(t.start, start);
        CHECK_EQ(t.bytes, 0x800);
    }
    for (uint64_t i = 0, k = 0; i < MANY / 2; i++, k = (k + 7919) % MANY)
        CHECK(ledger_block_remove(l, 0x7f0000000000 + k * 0x1000));
    ledger_check(l);
    CHECK_EQ(ledger_blocks(l), MANY / 2);
    CHECK(ledger_remove(l, 0x7f0000000000, NULL));
    CHECK_EQ(ledger_blocks(l), 0);
    ledger_check(l);
    ledger_delete(l);
}

TEST(what_the_framework_left_free_is_unused) {
    begin();
    CHECK(!unused(0x12000) && !unused(0x16000)); /* observed */
    ledger_block_add(l, 0x12000, 0x1000);
    CHECK(!unused(0x12fff));
    CHECK(unused(0x13000) && unused(0x10000) && unused(0x16000));
    CHECK(ledger_block_remove(l, 0x12000));
    CHECK(unused(0x12000));
    ledger_block_add(l, 0x12000, 0x2000);
    CHECK_EXTENT(0x13000, 0x12000, 0x14000, SOURCE_FRAMEWORK); /* nothing was noted of what was asked about */
    ledger_block_tell(l, 0x14000, 0x100);
    CHECK(!unused(0x14000)); /* a library uses it */
    CHECK(ledger_remove(l, 0x10000, NULL));
    allocate(0x10000, 0x10000);
    CHECK(!unused(0x12000));
}

TEST(a_block_over_several_allocations_divides_them_all) {
    begin();
    allocate(0x20000, 0x10000);
    allocate(0x30000, 0x10000);
    ledger_block_add(l, 0x18000, 0x10000);
    CHECK(unused(0x10000) && unused(0x2f000));
    CHECK(!unused(0x30000));
}
