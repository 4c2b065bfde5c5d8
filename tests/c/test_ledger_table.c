/* Pointer tables in the ledger. */
#include "ledger/ledger.h"

#include "test.h"

enum { MANY = 512 };

static struct ledger *l;
static bool certain; /* of what was read */
static addr_t values[MANY];

static void begin(void) {
    struct allocation a = {.start = 0x10000, .bytes = 0x10000};
    l = ledger_new();
    CHECK(ledger_add(l, &a));
    for (size_t i = 0; i < MANY; i++)
        values[i] = 0x10000 + 16 * i;
}

static void set(addr_t start, addr_t end, size_t first, size_t n) {
    ledger_table_set(l, start, end - start, values + first, n);
    ledger_check(l);
}

/* The numbers in `values` of all pointers known in [start, end), as a sum of 2^number. */
static uint64_t known(addr_t start, addr_t end) {
    addr_t found[64];
    uint64_t sum = 0;
    size_t n = ledger_table_find(l, start, end - start, found, 64);
    CHECK(n <= 64);
    for (size_t i = 0; i < n; i++)
        sum |= 1ull << (found[i] - 0x10000) / 16;
    return sum;
}

TEST(nothing_is_known_of_a_range_never_told) {
    begin();
    CHECK_EQ(known(0x10000, 0x20000), 0);
    set(0x10000, 0x10100, 0, 0);
    CHECK_EQ(known(0x10000, 0x20000), 0);
}

TEST(pointers_are_found_wherever_their_range_is_touched) {
    begin();
    set(0x11000, 0x11020, 0, 4);
    CHECK_EQ(known(0x10000, 0x20000), 0xf);
    CHECK_EQ(known(0x11000, 0x11020), 0xf);
    CHECK_EQ(known(0x1101f, 0x11020), 0xf);
    CHECK_EQ(known(0x10fff, 0x11001), 0xf);
    CHECK_EQ(known(0x10000, 0x11000), 0);
    CHECK_EQ(known(0x11020, 0x20000), 0);
}

TEST(all_are_counted_and_only_n_copied) {
    begin();
    addr_t found[MANY + 1] = {0};
    set(0x11000, 0x12000, 0, MANY);
    for (size_t n = 0; n <= MANY; n++) {
        memset(found, 0, sizeof found);
        CHECK_EQ(ledger_table_find(l, 0x11000, 1, found, n), MANY);
        CHECK(memcmp(found, values, n * sizeof *found) == 0);
        CHECK_EQ(found[n], 0);
    }
    CHECK_EQ(ledger_table_find(l, 0x11000, 1, NULL, 0), MANY);
}

TEST(several_tables_are_found_together) {
    begin();
    addr_t found[3] = {0};
    set(0x11000, 0x11100, 0, 2);
    set(0x12000, 0x12100, 2, 2);
    set(0x13000, 0x13100, 4, 2);
    CHECK_EQ(known(0x11000, 0x13100), 0x3f);
    CHECK_EQ(known(0x110ff, 0x12001), 0xf);
    CHECK_EQ(ledger_table_find(l, 0x10000, 0x10000, found, 3), 6);
    CHECK_EQ(found[2], values[2]);
}

TEST(a_new_copy_replaces_what_was_known_of_its_range) {
    begin();
    set(0x11000, 0x11100, 0, 2);
    set(0x11000, 0x11100, 2, 1);
    CHECK_EQ(known(0x10000, 0x20000), 4);
    set(0x10f00, 0x11200, 5, 1);
    CHECK_EQ(known(0x10000, 0x20000), 0x20);
    set(0x10000, 0x20000, 0, 0);
    CHECK_EQ(known(0x10000, 0x20000), 0);
}

TEST(what_is_left_of_a_table_keeps_its_pointers) {
    begin();
    set(0x11000, 0x11100, 0, 20);
    set(0x11040, 0x11060, 0, 0); /* the middle */
    CHECK_EQ(known(0x11000, 0x11040), 0xfffff);
    CHECK_EQ(known(0x11040, 0x11060), 0);
    CHECK_EQ(known(0x11060, 0x11100), 0xfffff);
    set(0x10ff0, 0x11010, 20, 1); /* the beginning of the first piece */
    CHECK_EQ(known(0x11000, 0x11010), 1 << 20);
    CHECK_EQ(known(0x11010, 0x11040), 0xfffff);
    set(0x110f0, 0x11110, 21, 1); /* the end of the last piece */
    CHECK_EQ(known(0x11060, 0x110f0), 0xfffff);
    CHECK_EQ(known(0x110f0, 0x11110), 1 << 21);
    set(0x11020, 0x11080, 0, 0); /* across two pieces */
    CHECK_EQ(known(0x11010, 0x11020), 0xfffff);
    CHECK_EQ(known(0x11020, 0x11080), 0);
    CHECK_EQ(known(0x11080, 0x110f0), 0xfffff);
    set(0x11000, 0x11100, 0, 0);
    CHECK_EQ(known(0x10000, 0x11100), 1 << 20);
}

TEST(an_impossible_range_is_ignored) {
    begin();
    ledger_table_set(l, 0x11000, 0, values, 1);
    ledger_table_set(l, 0, 8, values, 1);
    ledger_table_set(l, UINT64_MAX - 7, 8, values, 1);
    CHECK_EQ(ledger_table_find(l, 0x11000, 0, values, 1), 0);
    CHECK_EQ(ledger_table_find(l, UINT64_MAX, 1, values, 1), 0);
    CHECK_EQ(known(1, UINT64_MAX), 0);
}

TEST(words_are_read_back_where_a_copy_held_pointers_only) {
    begin();
    addr_t found[MANY + 1] = {0};
    set(0x11000, 0x11000 + 8 * MANY, 0, MANY);
    for (size_t first = 0; first < MANY; first += 37)
        for (size_t n = 1; n <= MANY - first; n += 11) {
            memset(found, 0, sizeof found);
            CHECK(ledger_table_read(l, 0x11000 + 8 * first, n, found, &certain));
            CHECK(memcmp(found, values + first, n * sizeof *found) == 0);
            CHECK_EQ(found[n], 0);
        }
    CHECK(!ledger_table_read(l, 0x11000, MANY + 1, found, &certain));
    CHECK(!ledger_table_read(l, 0x11008, MANY, found, &certain));
    CHECK(!ledger_table_read(l, 0x10ff8, 1, found, &certain));
    CHECK(!ledger_table_read(l, 0x11004, 1, found, &certain));
    CHECK(!ledger_table_read(l, 0x11000 + 8 * MANY, 1, found, &certain));
    CHECK(!ledger_table_read(l, 0x11000, 0, found, &certain));
    CHECK(!ledger_table_read(l, 0, 1, found, &certain));
}

TEST(words_are_not_read_back_where_anything_else_was_copied) {
    begin();
    addr_t found[8];
    set(0x11000, 0x11048, 0, 8); /* 8 pointers in 9 words */
    CHECK(!ledger_table_read(l, 0x11000, 1, found, &certain));
    set(0x12000, 0x12040, 0, 8);
    set(0x12010, 0x12018, 0, 0); /* the third is overwritten */
    CHECK(ledger_table_read(l, 0x12000, 2, found, &certain));
    CHECK_EQ(found[1], values[1]);
    CHECK(!ledger_table_read(l, 0x12000, 3, found, &certain));
    CHECK(!ledger_table_read(l, 0x12010, 1, found, &certain));
    CHECK(ledger_table_read(l, 0x12018, 5, found, &certain));
    CHECK_EQ(found[0], values[3]);
    CHECK_EQ(found[4], values[7]);
    set(0x12010, 0x12018, 20, 1); /* and again, by a pointer */
    CHECK(ledger_table_read(l, 0x12010, 1, found, &certain));
    CHECK_EQ(found[0], values[20]);
    CHECK(!ledger_table_read(l, 0x12010, 2, found, &certain)); /* from two copies */
}

static bool sure(addr_t start, addr_t end) {
    return ledger_table_sure(l, start, end - start);
}

static void touch(addr_t start, addr_t end, enum touch_mode mode) {
    struct touch t = {.start = start, .bytes = end - start, .mode = (uint8_t)mode};
    ledger_tables_touched(l, &t, 1);
    ledger_check(l);
}

TEST(a_range_is_sure_where_copies_brought_all_of_it) {
    begin();
    CHECK(!ledger_any_table(l));
    CHECK(!sure(0x11000, 0x11008));
    set(0x11000, 0x11040, 0, 8);
    set(0x11040, 0x11100, 8, 1); /* among other words */
    CHECK(ledger_any_table(l));
    CHECK(sure(0x11000, 0x11040) && sure(0x11008, 0x11010) && sure(0x11040, 0x11100) && sure(0x11000, 0x11100));
    CHECK(!sure(0x10ff8, 0x11040) && !sure(0x110f8, 0x11101) && !sure(0x11100, 0x11108));
    set(0x11080, 0x11088, 0, 0);
    CHECK(!sure(0x11000, 0x11100) && !sure(0x11080, 0x11088));
    CHECK(sure(0x11000, 0x11080) && sure(0x11088, 0x11100));
    CHECK(!ledger_table_sure(l, 0, 8) && !ledger_table_sure(l, 0x11000, 0));
}

TEST(what_is_written_is_forgotten) {
    static const enum touch_mode modes[] = {TOUCH_WRITE, TOUCH_SCRATCH};
    begin();
    for (int i = 0; i < 2; i++) {
        set(0x11000, 0x11040, 0, 8);
        touch(0x11008, 0x11010, modes[i]);
        CHECK_EQ(known(0x11008, 0x11010), 0);
        CHECK(!sure(0x11000, 0x11040) && sure(0x11000, 0x11008) && sure(0x11010, 0x11040));
        touch(0x10000, 0x20000, modes[i]);
        CHECK(!ledger_any_table(l));
    }
}

TEST(what_may_be_written_is_a_guess_until_it_is_copied_again) {
    begin();
    addr_t found[8];
    set(0x11000, 0x11040, 0, 8);
    set(0x12000, 0x12040, 8, 8);
    touch(0x11000, 0x11040, TOUCH_READ);
    touch(0x10000, 0x11000, TOUCH_UPDATE);
    touch(0x11040, 0x12000, TOUCH_UPDATE);
    CHECK(sure(0x11000, 0x11040));
    touch(0x1103f, 0x11040, TOUCH_UPDATE);
    CHECK(!sure(0x11000, 0x11008) && sure(0x12000, 0x12040));
    CHECK_EQ(known(0x11000, 0x11008), 0xff);
    CHECK(ledger_table_read(l, 0x11000, 8, found, &certain) && !certain);
    CHECK(ledger_table_read(l, 0x12000, 8, found, &certain) && certain);
    set(0x11000, 0x11020, 0, 4);
    CHECK(sure(0x11000, 0x11020) && !sure(0x11020, 0x11028));
}

TEST(all_may_be_a_guess) {
    begin();
    set(0x11000, 0x11040, 0, 8);
    set(0x12000, 0x12040, 8, 8);
    ledger_tables_doubt(l);
    ledger_tables_doubt(l);
    CHECK(!sure(0x11000, 0x11040) && !sure(0x12000, 0x12040));
    set(0x13000, 0x13040, 0, 8);
    CHECK(sure(0x13000, 0x13040) && !sure(0x12000, 0x12040));
    touch(0x13000, 0x13040, TOUCH_UPDATE);
    ledger_tables_doubt(l);
    CHECK(!sure(0x13000, 0x13040));
    CHECK_EQ(known(0x11000, 0x13040), 0xffff);
}

TEST(tables_go_with_the_block_of_the_framework) {
    begin();
    ledger_block_add(l, 0x11000, 0x1000);
    set(0x11000, 0x11040, 0, 8);
    set(0x12000, 0x12040, 8, 1);
    CHECK(ledger_block_remove(l, 0x11000));
    ledger_check(l);
    CHECK_EQ(known(0x10000, 0x12000), 0);
    CHECK_EQ(known(0x12000, 0x13000), 0x100);
    set(0x11000, 0x11040, 0, 8);
    ledger_block_add(l, 0x11000, 0x1000); /* the free one again */
    CHECK_EQ(known(0x10000, 0x12000), 0);
    ledger_block_add(l, 0x12000, 0x100);
    ledger_check(l);
    CHECK(!ledger_any_table(l));
}

TEST(tables_go_with_their_allocation) {
    begin();
    struct allocation next = {.start = 0x20000, .bytes = 0x10000};
    CHECK(ledger_add(l, &next));
    set(0x11000, 0x11100, 0, 1);
    set(0x1ff00, 0x20100, 1, 1);
    set(0x21000, 0x21100, 2, 1);
    CHECK(ledger_remove(l, 0x10000, NULL));
    ledger_check(l);
    CHECK_EQ(known(0x10000, 0x20000), 0);
    CHECK_EQ(known(0x20000, 0x30000), 6);
}

TEST(memory_is_used_again) {
    begin();
    for (size_t i = 0; i < 100 * 1000; i++)
        ledger_table_set(l, 0x11000 + i % 7 * 8, 0x1000, values, MANY);
    ledger_check(l);
    addr_t found[64];
    CHECK(ledger_table_find(l, 0x10000, 0x10000, found, 64) <= 7 * MANY);
}
