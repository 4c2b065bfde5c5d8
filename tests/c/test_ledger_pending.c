/* Blocks told later: known to whoever looks, and to the ledger alone while nobody does. */
#include "ledger/ledger.h"

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

enum { BLOCK = 512, BLOCKS = 12000 /* more than places */, THREADS = 4, ROUNDS = 60 * 1000 };

static struct ledger *l;
static const addr_t base = 0x10000000;

static void begin(uint64_t blocks) {
    l = ledger_new();
    struct allocation a = {.start = base, .bytes = blocks * BLOCK};
    CHECK(ledger_add(l, &a));
}

static addr_t block(uint64_t i) {
    return base + i * BLOCK;
}

static bool is_told(addr_t p) {
    struct touch t = {0};
    return ledger_extent(l, p, &t) && t.source == SOURCE_FRAMEWORK && t.start == p && t.bytes == BLOCK;
}

TEST(who_looks_finds_what_was_told_later) {
    begin(BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i++)
        CHECK(ledger_block_add_later(l, block(i), BLOCK));
    ledger_check(l);
    CHECK_EQ(ledger_blocks(l), BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i += 3)
        CHECK(ledger_block_remove_later(l, block(i)));
    CHECK_EQ(ledger_blocks(l), BLOCKS / 3 * 2);
    for (uint64_t i = 0; i < BLOCKS; i++)
        CHECK_EQ(is_told(block(i)), i % 3 != 0);
    ledger_check(l);
}

/* As in the ledger: of two that overlap the one told last lives, wherever both waited. */
TEST(a_block_replaces_those_that_it_overlaps) {
    begin(BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i += 2)
        CHECK(ledger_block_add_later(l, block(i), 2 * BLOCK));
    for (uint64_t i = 0; i < BLOCKS; i += 2)
        CHECK(ledger_block_add_later(l, block(i), BLOCK));
    for (uint64_t i = 0; i < BLOCKS; i += 2)
        CHECK(is_told(block(i)));
    CHECK_EQ(ledger_blocks(l), BLOCKS / 2);
    ledger_check(l);
}

TEST(a_place_that_was_left_is_taken_again) {
    begin(BLOCKS);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < BLOCKS / 4; i++)
            CHECK(ledger_block_add_later(l, block(i), BLOCK));
        for (uint64_t i = 1; i < BLOCKS / 4; i += 2)
            CHECK(ledger_block_remove_later(l, block(i)));
        for (uint64_t i = 1; i < BLOCKS / 4; i += 2)
            CHECK(ledger_block_add_later(l, block(i), BLOCK));
        CHECK_EQ(ledger_blocks(l), BLOCKS / 4);
        for (uint64_t i = 0; i < BLOCKS / 4; i++)
            CHECK(ledger_block_remove_later(l, block(i)));
        CHECK_EQ(ledger_blocks(l), 0);
    }
    ledger_check(l);
}

TEST(a_list_misses_none) {
    struct touch found[BLOCKS];
    begin(BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i++)
        CHECK(ledger_block_add_later(l, block(i), BLOCK));
    CHECK_EQ(ledger_list_blocks(l, 0, found, BLOCKS), BLOCKS);
}

TEST(memory_goes_with_what_was_told_of_it) {
    begin(BLOCKS);
    CHECK(ledger_block_add_later(l, base, BLOCK));
    CHECK(ledger_remove(l, base, NULL));
    CHECK_EQ(ledger_blocks(l), 0);
    ledger_check(l);
}

TEST(copied_addresses_go_with_their_block) {
    begin(BLOCKS);
    addr_t pointer = base;
    CHECK(ledger_block_add_later(l, block(1), BLOCK));
    ledger_table_set(l, block(1), sizeof pointer, &pointer, 1);
    CHECK(ledger_block_remove_later(l, block(1)));
    CHECK(!ledger_any_table(l));
    ledger_table_set(l, block(2), sizeof pointer, &pointer, 1);
    CHECK(ledger_block_add_later(l, block(2), BLOCK));
    CHECK(!ledger_any_table(l));
    CHECK(ledger_block_add_later(l, block(3), BLOCK));
    ledger_table_set(l, block(3), sizeof pointer, &pointer, 1);
    CHECK(is_told(block(3))); /* entering it does not count as giving it out */
    CHECK(ledger_any_table(l));
}

TEST(nothing_is_told_later_any_more) {
    begin(BLOCKS);
    CHECK(ledger_block_add_later(l, block(0), BLOCK));
    ledger_blocks_at_once(l);
    CHECK(!ledger_block_add_later(l, block(1), BLOCK) && !ledger_block_remove_later(l, block(0)));
    CHECK_EQ(ledger_blocks(l), 1);
    CHECK(is_told(block(0)) && !is_told(block(1)));
    CHECK(ledger_block_remove(l, block(0)));
    CHECK_EQ(ledger_blocks(l), 0);
}

TEST(no_block_has_no_bytes) {
    begin(BLOCKS);
    CHECK(!ledger_block_add_later(l, base, 0) && !ledger_block_add_later(l, UINT64_MAX - 0xff, BLOCK));
    CHECK_EQ(ledger_blocks(l), 0);
}

/* --- threads: each has blocks of its own, and finds those that it told --- */

static atomic_bool at_once;

static void tell(addr_t start) {
    if (!ledger_block_add_later(l, start, BLOCK)) {
        CHECK(atomic_load(&at_once));
        ledger_block_add(l, start, BLOCK);
    }
}

static void take_back(addr_t start) {
    if (!ledger_block_remove_later(l, start))
        CHECK(ledger_block_remove(l, start));
}

/* More live at a time, of all threads, than there are places: some always go from there into the ledger. */
static void *live(void *number) {
    uint64_t first = (uintptr_t)number * BLOCKS, state = first + 1;
    static bool lives[THREADS * BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t mine = first + (state >> 33) % BLOCKS;
        if (lives[mine])
            take_back(block(mine));
        else
            tell(block(mine));
        lives[mine] = !lives[mine];
        if (round % 4096 == 0)
            CHECK_EQ(is_told(block(mine)), lives[mine]);
    }
    for (uint64_t i = first; i < first + BLOCKS; i++)
        if (lives[i])
            take_back(block(i));
    return NULL;
}

TEST(threads_find_what_they_told) {
    pthread_t thread[THREADS];
    begin(THREADS * BLOCKS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, live, (void *)i));
    usleep(20000);
    atomic_store(&at_once, true);
    ledger_blocks_at_once(l);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(thread[i], NULL));
    CHECK_EQ(ledger_blocks(l), 0);
    ledger_check(l);
}
