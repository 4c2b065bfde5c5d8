/* Blocks that a library told. */
#include "ledger/ledger.h"

#include "test.h"

enum { START = 0x10000, BYTES = 0x10000 };

static struct ledger *l;
static bool certain; /* of what was read */
static uint64_t id;

static void begin(void) {
    struct allocation a = {.start = START, .bytes = BYTES};
    l = ledger_new();
    id = ledger_add(l, &a);
    CHECK(id);
}

static void check_extent(addr_t p, addr_t start, uint64_t bytes, enum touch_source source) {
    struct touch t = {0};
    CHECK(ledger_extent(l, p, &t));
    ledger_check(l);
    CHECK_EQ(t.start, start);
    CHECK_EQ(t.bytes, bytes);
    CHECK_EQ(t.source, source);
    CHECK_EQ(t.allocation, id);
}

static void tell(addr_t start, uint64_t bytes) {
    CHECK_EQ(ledger_block_tell(l, start, bytes), id);
    ledger_check(l);
}

TEST(only_allocations_hold_blocks) {
    begin();
    CHECK_EQ(ledger_block_tell(l, START - 1, 16), 0);
    CHECK_EQ(ledger_block_tell(l, START + BYTES, 16), 0);
    CHECK_EQ(ledger_block_tell(l, START, 0), 0);
    CHECK_EQ(ledger_block_tell(l, UINT64_MAX - 1, 16), 0);
    check_extent(START, START, BYTES, SOURCE_ALLOCATION);
}

TEST(a_block_told_is_found_from_any_address_inside) {
    begin();
    tell(START + 0x100, 0x1001);
    check_extent(START + 0x100, START + 0x100, 0x1001, SOURCE_LIBRARY);
    check_extent(START + 0x110, START + 0x100, 0x1001, SOURCE_LIBRARY);
    check_extent(START + 0x1100, START + 0x100, 0x1001, SOURCE_LIBRARY);
    CHECK(ledger_blocks(l) == 0); /* the framework's alone are counted */
}

TEST(what_lies_beside_ends_with_it) {
    begin();
    tell(START + 0x100, 0x1000);
    check_extent(START, START, 0x100, SOURCE_OBSERVED);
    check_extent(START + 0x1100, START + 0x1100, BYTES - 0x1100, SOURCE_OBSERVED);
}

TEST(a_smaller_block_inside_changes_nothing) {
    begin();
    tell(START + 0x100, 0x1000);
    tell(START + 0x200, 0x100);
    tell(START + 0x100, 0x1000);
    tell(START + 0x100, 0x10);
    check_extent(START + 0x210, START + 0x100, 0x1000, SOURCE_LIBRARY);
}

TEST(a_larger_or_shifted_block_takes_the_place) {
    begin();
    tell(START + 0x1000, 0x1000);
    tell(START + 0x1000, 0x2000);
    check_extent(START + 0x1800, START + 0x1000, 0x2000, SOURCE_LIBRARY);
    tell(START + 0x2000, 0x2000);
    check_extent(START + 0x1800, START + 0x1000, 0x1000, SOURCE_LIBRARY);
    check_extent(START + 0x2800, START + 0x2000, 0x2000, SOURCE_LIBRARY);
    tell(START, BYTES);
    check_extent(START + 0x2800, START, BYTES, SOURCE_LIBRARY);
}

TEST(observed_blocks_give_way) {
    begin();
    check_extent(START + 0x100, START + 0x100, BYTES - 0x100, SOURCE_OBSERVED);
    check_extent(START + 0x200, START + 0x200, BYTES - 0x200, SOURCE_OBSERVED);
    tell(START + 0x80, 0x1000);
    check_extent(START + 0x200, START + 0x80, 0x1000, SOURCE_LIBRARY);
}

TEST(the_framework_knows_better) {
    begin();
    ledger_block_add(l, START + 0x100, 0x100);
    tell(START + 0x100, 0x80);
    tell(START + 0x140, 0x1000);
    tell(START, 0x1000);
    check_extent(START + 0x140, START + 0x100, 0x100, SOURCE_FRAMEWORK);
    CHECK(!ledger_extent(l, START, &(struct touch){0})); /* what was told of it was refused */
    ledger_block_add(l, START, 0x1000);
    CHECK(ledger_block_remove(l, START));
    tell(START, 0x1000);
    ledger_block_add(l, START + 0x800, 0x100);
    check_extent(START + 0x10, START, 0x800, SOURCE_LIBRARY);
}

TEST(a_block_that_leaves_its_allocation_is_not_kept) {
    begin();
    tell(START + 0x100, BYTES);
    check_extent(START + 0x100, START + 0x100, BYTES - 0x100, SOURCE_OBSERVED);
}

TEST(blocks_go_with_their_allocation) {
    begin();
    tell(START + 0x100, 0x1000);
    CHECK(ledger_remove(l, START, NULL));
    ledger_check(l);
    struct allocation again = {.start = START, .bytes = BYTES};
    id = ledger_add(l, &again);
    check_extent(START, START, BYTES, SOURCE_ALLOCATION);
}

TEST(there_is_an_end_to_what_is_kept) {
    begin();
    for (addr_t p = START; p < START + BYTES; p += 8)
        CHECK_EQ(ledger_block_tell(l, p, 8), id);
    ledger_check(l);
    struct touch t;
    CHECK(ledger_extent(l, START, &t));
    CHECK_EQ(t.bytes, 8);
    CHECK(ledger_extent(l, START + BYTES - 8, &t));
    CHECK(t.bytes > 8);
}

TEST(all_of_a_call_are_told_at_once) {
    enum { MANY = 70, SIZE = 16 };
    struct touch touches[MANY];
    begin();
    for (int i = 0; i < MANY; i++) /* every third lies in no allocation, every seventh is known */
        touches[i] = (struct touch){.start = START + (addr_t)(i % 3 == 0 ? BYTES + i : 32 * i),
                                    .bytes = SIZE,
                                    .allocation = i % 7 == 0 ? 1000 : 0,
                                    .mode = (uint8_t)(1 + i % 4)};
    size_t left = ledger_blocks_tell(l, touches, MANY), at = 0;
    ledger_check(l);
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 0 && i % 7)
            continue;
        CHECK_EQ(touches[at].start, START + (addr_t)(i % 3 == 0 ? BYTES + i : 32 * i));
        CHECK_EQ(touches[at].allocation, i % 7 == 0 ? 1000 : id);
        CHECK_EQ(touches[at++].mode, 1 + i % 4);
    }
    CHECK_EQ(left, at);
    CHECK_EQ(ledger_blocks_tell(l, touches, 0), 0);
    check_extent(START + 32, START + 32, SIZE, SOURCE_LIBRARY);
}

TEST(those_found_before_are_found_at_once) {
    addr_t p[4] = {START + 0x108, START, START + 0x2000, START + 0x20f};
    struct touch t[4], before;
    begin();
    tell(START + 0x100, 0x10);
    ledger_block_add(l, START + 0x200, 0x10);
    CHECK_EQ(ledger_extents_told(l, p, 4, TOUCH_READ, t), 8); /* the framework's start is known since it was told */
    for (int i = 0; i < 4; i++)
        ledger_extent(l, p[i], &before);
    CHECK_EQ(ledger_extents_told(l, p, 4, TOUCH_READ, t), 1 | 8);
    CHECK_EQ(t[0].start, START + 0x100);
    CHECK_EQ(t[0].bytes, 0x10);
    CHECK_EQ(t[0].source, SOURCE_LIBRARY);
    CHECK_EQ(t[3].start, START + 0x200);
    CHECK_EQ(t[3].source, SOURCE_FRAMEWORK);
    CHECK_EQ(t[3].allocation, id);
    CHECK_EQ(t[3].mode, TOUCH_READ);
    CHECK(ledger_block_remove(l, START + 0x200));
    CHECK_EQ(ledger_extents_told(l, p, 4, TOUCH_READ, t), 1);
}

TEST(words_of_a_copy_of_addresses) {
    addr_t words[40], out[40];
    begin();
    for (size_t i = 0; i < 40; i++)
        words[i] = START + 16 * i;
    ledger_table_set(l, START + 0x100, sizeof words, words, 40);
    for (size_t from = 0; from < 40; from++)
        for (size_t n = 1; from + n <= 40; n++) {
            CHECK(ledger_table_read(l, START + 0x100 + 8 * from, n, out, &certain));
            CHECK(memcmp(out, words + from, n * sizeof *out) == 0);
        }
    CHECK(!ledger_table_read(l, START + 0x100, 41, out, &certain));
    CHECK(!ledger_table_read(l, START + 0xf8, 1, out, &certain));
    CHECK(!ledger_table_read(l, START + 0x104, 1, out, &certain));
    CHECK(!ledger_table_read(l, START + 0x100, 0, out, &certain));
}

TEST(words_are_known_of_dense_copies_only) {
    addr_t words[4] = {START, START + 16, START + 32, START + 48}, out[4];
    begin();
    ledger_table_set(l, START + 0x100, 64, words, 4); /* four addresses among eight words */
    CHECK(!ledger_table_read(l, START + 0x100, 1, out, &certain));
    ledger_table_set(l, START + 0x200, 32, words, 4);
    ledger_table_set(l, START + 0x208, 8, NULL, 0); /* the second is overwritten */
    ledger_check(l);
    CHECK(!ledger_table_read(l, START + 0x200, 4, out, &certain));
    CHECK(ledger_table_read(l, START + 0x200, 1, out, &certain));
    CHECK_EQ(out[0], words[0]);
    CHECK(ledger_table_read(l, START + 0x210, 2, out, &certain));
    CHECK_EQ(out[1], words[3]);
}
