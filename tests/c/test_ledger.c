/* Allocations in the ledger. */
#include "ledger/state.h"

#include <errno.h>
#include <sys/resource.h>

#include "test.h"

#ifdef __SANITIZE_THREAD__ /* 40 times slower */
enum { MANY = 20 * 1000 };
#else
enum { MANY = 1000 * 1000 };
#endif

static struct allocation make(addr_t start, uint64_t bytes) {
    return (struct allocation){.start = start, .bytes = bytes, .device = 0};
}

static uint64_t add(struct ledger *l, addr_t start, uint64_t bytes) {
    struct allocation a = make(start, bytes);
    return ledger_add(l, &a);
}

static uint64_t find(struct ledger *l, addr_t p) {
    struct allocation a;
    return ledger_find(l, p, &a) ? a.id : 0;
}

TEST(an_empty_ledger_holds_nothing) {
    struct ledger *l = ledger_new();
    struct allocation a;
    CHECK(!ledger_find(l, 0x1000, &a));
    CHECK(!ledger_may_hold(l, 0x1000));
    CHECK(!ledger_remove(l, 0x1000, &a));
    CHECK_EQ(ledger_list(l, 0, &a, 1), 0);
    CHECK_EQ(ledger_allocations(l), 0);
    CHECK_EQ(ledger_blocks(l), 0);
    ledger_check(l);
    ledger_delete(l);
    ledger_delete(NULL);
}

TEST(found_from_the_first_to_the_last_byte) {
    struct ledger *l = ledger_new();
    uint64_t id = add(l, 0x7f0000000000, 0x100);
    CHECK_EQ(find(l, 0x7effffffffff), 0);
    CHECK_EQ(find(l, 0x7f0000000000), id);
    CHECK_EQ(find(l, 0x7f00000000ff), id);
    CHECK_EQ(find(l, 0x7f0000000100), 0);
    ledger_check(l);
}

TEST(every_field_comes_back) {
    struct ledger *l = ledger_new();
    struct allocation a = {0x1000, 0x200, 77, 0x180, 0xabcdef, DEVICE_NONE, MEMORY_IPC, 1}, b, gone;
    CHECK_EQ(ledger_add(l, &a), 1);
    CHECK_EQ(a.id, 1);
    CHECK(ledger_find(l, 0x1100, &b));
    CHECK(memcmp(&a, &b, sizeof a) == 0);
    CHECK(ledger_remove(l, 0x1000, &gone));
    CHECK(memcmp(&a, &gone, sizeof a) == 0);
}

TEST(an_overlap_is_refused_and_the_live_one_stays) {
    struct ledger *l = ledger_new();
    const addr_t overlapping[][2] = {{0x2000, 0x1000}, {0x1800, 0x1000}, {0x2800, 0x1000}, {0x2400, 0x100},
                                     {0x1000, 0x4000}, {0x2fff, 1},      {0x2000, 1},      {0x1fff, 2}};
    uint64_t id = add(l, 0x2000, 0x1000);
    for (size_t i = 0; i < sizeof overlapping / sizeof *overlapping; i++) {
        struct allocation a = make(overlapping[i][0], overlapping[i][1]);
        a.id = 99;
        CHECK_EQ(ledger_add(l, &a), 0);
        CHECK_EQ(a.id, 0);
    }
    CHECK_EQ(ledger_allocations(l), 1);
    CHECK_EQ(find(l, 0x2000), id);
    CHECK(add(l, 0x3000, 0x1000) > id);
    CHECK(add(l, 0x1000, 0x1000) > id);
    ledger_check(l);
}

TEST(an_impossible_range_is_refused) {
    struct ledger *l = ledger_new();
    CHECK_EQ(add(l, 0x1000, 0), 0);
    CHECK_EQ(add(l, 0, 0x1000), 0);
    CHECK_EQ(add(l, UINT64_MAX - 0xfff, 0x1000), 0);
    CHECK_EQ(add(l, UINT64_MAX, UINT64_MAX), 0);
    CHECK_EQ(add(l, 0x1000, UINT64_MAX - 0x1000 + 1), 0);
    CHECK_EQ(ledger_allocations(l), 0);
    ledger_check(l);
}

TEST(the_highest_range_is_held) {
    struct ledger *l = ledger_new();
    CHECK_EQ(add(l, UINT64_MAX - 0x1000, 0x1000), 1);
    CHECK_EQ(find(l, UINT64_MAX - 0x1000), 1);
    CHECK_EQ(find(l, UINT64_MAX - 1), 1);
    CHECK_EQ(find(l, UINT64_MAX), 0);
    CHECK(ledger_may_hold(l, UINT64_MAX - 1));
    ledger_check(l);
}

TEST(one_range_may_be_nearly_everything) {
    struct ledger *l = ledger_new();
    CHECK_EQ(add(l, 1, UINT64_MAX - 1), 1);
    CHECK_EQ(find(l, 0), 0);
    CHECK_EQ(find(l, 1), 1);
    CHECK_EQ(find(l, UINT64_MAX - 1), 1);
    CHECK(ledger_may_hold(l, 1ull << 60));
    ledger_check(l);
}

TEST(removed_by_its_start_only_and_once) {
    struct ledger *l = ledger_new();
    add(l, 0x2000, 0x1000);
    CHECK(!ledger_remove(l, 0x2001, NULL));
    CHECK(!ledger_remove(l, 0x1fff, NULL));
    CHECK(!ledger_remove(l, 0x3000, NULL));
    CHECK(!ledger_remove(l, 0, NULL));
    CHECK(ledger_remove(l, 0x2000, NULL));
    CHECK(!ledger_remove(l, 0x2000, NULL));
    CHECK_EQ(find(l, 0x2000), 0);
    CHECK_EQ(ledger_allocations(l), 0);
    ledger_check(l);
}

TEST(ids_are_never_used_twice) {
    struct ledger *l = ledger_new();
    struct allocation gone;
    CHECK_EQ(add(l, 0x1000, 0x1000), 1);
    CHECK_EQ(add(l, 0x1800, 0x1000), 0);
    CHECK_EQ(add(l, 0x2000, 0x1000), 2);
    CHECK(ledger_remove(l, 0x2000, &gone));
    CHECK_EQ(add(l, 0x3000, 0x1000), 3);
    ledger_restore(l, &gone);
    CHECK_EQ(find(l, 0x2000), 2);
    CHECK_EQ(add(l, 0x4000, 0x1000), 4);
    ledger_check(l);
}

TEST(a_refused_free_restores_everything) {
    struct ledger *l = ledger_new();
    struct allocation a = {.start = 0x1000, .bytes = 0x1000, .charged = 0x1000, .context = 7, .device = 3}, gone, found;
    ledger_limit(l, 3, 0x1800);
    CHECK(ledger_reserve(l, 3, a.charged));
    ledger_commit(l, 3, a.charged);
    CHECK(ledger_add(l, &a));
    CHECK(ledger_remove(l, 0x1000, &gone));
    CHECK_EQ(ledger_used(l, 3), 0x1000);
    CHECK(!ledger_reserve(l, 3, 0x1000)); /* another thread may not have it meanwhile */
    ledger_restore(l, &gone);
    CHECK_EQ(ledger_used(l, 3), 0x1000);
    CHECK(ledger_find(l, 0x1fff, &found));
    CHECK(memcmp(&a, &found, sizeof a) == 0);
    ledger_check(l);
    ledger_restore(l, &gone); /* it is there already: not charged twice */
    CHECK_EQ(ledger_used(l, 3), 0x1000);
    CHECK_EQ(ledger_allocations(l), 1);
    CHECK(ledger_remove(l, 0x1000, &gone));
    ledger_freed(l, &gone);
    CHECK_EQ(ledger_used(l, 3), 0);
}

TEST(listed_in_order_page_by_page) {
    struct ledger *l = ledger_new();
    struct allocation page[64];
    for (addr_t i = 1000; i > 0; i--)
        CHECK(add(l, i * 0x1000, 0x800));
    addr_t from = 0, expected = 0x1000;
    size_t n;
    for (; (n = ledger_list(l, from, page, 64)) > 0; from = page[n - 1].start + 1)
        for (size_t i = 0; i < n; i++, expected += 0x1000)
            CHECK_EQ(page[i].start, expected);
    CHECK_EQ(expected, 1001 * 0x1000);
    CHECK_EQ(ledger_list(l, 0x1000, page, 1), 1);
    CHECK_EQ(page[0].start, 0x1000);
    CHECK_EQ(ledger_list(l, 0x1001, page, 1), 1);
    CHECK_EQ(page[0].start, 0x2000);
    CHECK_EQ(ledger_list(l, 1001 * 0x1000, page, 1), 0);
    CHECK_EQ(ledger_list(l, 0, page, 0), 0);
}

TEST(the_bounds_hold_every_address_there_ever_was) {
    struct ledger *l = ledger_new();
    addr_t low = 1, high = 1;
    ledger_bounds(l, &low, &high);
    CHECK_EQ(low, high); /* nothing lies between */
    add(l, 0x5000, 0x1000);
    ledger_bounds(l, &low, &high);
    CHECK_EQ(low, 0x5000);
    CHECK_EQ(high, 0x6000);
    add(l, 0x9000, 0x1000);
    add(l, 0x2000, 0x1000);
    add(l, 0x7000, 0x1000);
    CHECK(ledger_remove(l, 0x2000, NULL));
    CHECK(ledger_remove(l, 0x9000, NULL));
    ledger_bounds(l, &low, &high);
    CHECK_EQ(low, 0x2000);
    CHECK_EQ(high, 0xa000);
}

TEST(most_values_cannot_be_addresses) {
    struct ledger *l = ledger_new();
    add(l, 0x7f1240000000, 1ull << 31);
    CHECK(ledger_may_hold(l, 0x7f1240000000));
    CHECK(ledger_may_hold(l, 0x7f12bfffffff));
    CHECK(!ledger_may_hold(l, 0));
    CHECK(!ledger_may_hold(l, 4096));
    CHECK(!ledger_may_hold(l, UINT64_MAX));
    CHECK(!ledger_may_hold(l, 0x3f800000));         /* 1.0f */
    CHECK(!ledger_may_hold(l, 0x3f8000003f800000)); /* two of them */
    CHECK(!ledger_may_hold(l, 0x3ff0000000000000)); /* 1.0 */
    CHECK(!ledger_may_hold(l, 0x0000004000000020)); /* two small integers */
    CHECK(!ledger_may_hold(l, 0x7f1200000000));
    CHECK(!ledger_may_hold(l, 0x7f1300000000));
    CHECK(!ledger_may_hold(l, 0x10007f1240000000)); /* shares a bit */
}

static uint64_t random_state = 0x2545f4914f6cdd1d;

static uint64_t random_number(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint32_t *shuffled(size_t n) {
    uint32_t *order = malloc(n * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n - 1; i > 0; i--) {
        size_t k = random_number() % (i + 1);
        uint32_t kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    return order;
}

TEST(a_million_allocations_come_and_go) {
    struct ledger *l = ledger_new();
    uint32_t *order = shuffled(MANY);
    const addr_t base = 0x7f0000000000;
    for (size_t i = 0; i < MANY; i++)
        CHECK_EQ(add(l, base + order[i] * 0x1000ull, 0x800), i + 1);
    CHECK_EQ(ledger_allocations(l), MANY);
    ledger_check(l);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_EQ(find(l, base + order[i] * 0x1000ull + random_number() % 0x800), i + 1);
        CHECK_EQ(find(l, base + order[i] * 0x1000ull + 0x800 + random_number() % 0x800), 0);
    }
    for (size_t i = 0; i < MANY; i += 2)
        CHECK(ledger_remove(l, base + order[i] * 0x1000ull, NULL));
    ledger_check(l);
    for (size_t i = 0; i < MANY; i++)
        CHECK_EQ(find(l, base + order[i] * 0x1000ull), i % 2 ? i + 1 : 0);
    for (size_t i = 1; i < MANY; i += 2)
        CHECK(ledger_remove(l, base + order[i] * 0x1000ull, NULL));
    CHECK_EQ(ledger_allocations(l), 0);
    ledger_check(l);
    ledger_delete(l);
    free(order);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they need address space themselves */

static size_t mapped_bytes(void) {
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_memory(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(without_memory_nothing_changes) {
    struct ledger *l = ledger_new();
    limit_memory(mapped_bytes() + (16 << 20)); /* room for a few slabs, not for all */
    struct ledger *none = ledger_new();
    addr_t i = 1;
    errno = EDOM;
    while (add(l, i << 20, 1 << 20) == i)
        i++;
    CHECK_EQ(errno, EDOM);
    CHECK(none || i > 1);
    CHECK_EQ(ledger_allocations(l), i - 1);
    CHECK_EQ(find(l, i << 20), 0);
    ledger_check(l);

    limit_memory(mapped_bytes()); /* what was left may have been a slab */
    struct touch t;
    size_t splits = 0;
    for (addr_t p = 1 << 20; p < i << 20; p += 1 << 18) {
        CHECK(ledger_extent(l, p, &t)); /* noted or not: what is told is true */
        CHECK(t.start <= p && p < t.start + t.bytes && t.allocation == p >> 20);
    }
    for (addr_t p = 1 << 20; p < i << 20; p += 1 << 18, splits++) {
        ledger_table_set(l, p, 8, &p, 1);
        ledger_block_add(l, p + 0x1000, 0x1000);
    }
    ledger_check(l);
    CHECK(splits > 0 && ledger_blocks(l) < splits); /* so there was none left */

    for (addr_t k = 1; k < i; k++)
        CHECK(ledger_remove(l, k << 20, NULL));
    CHECK_EQ(ledger_allocations(l) + ledger_blocks(l), 0);
    limit_memory(RLIM_INFINITY);
    CHECK_EQ(add(l, i << 20, 1 << 20), i);
    ledger_check(l);
}

static void live_through(struct ledger *l) {
    struct touch t;
    for (addr_t start = 1 << 20; start < 100 << 20; start += 1 << 20) {
        CHECK(add(l, start, 1 << 20));
        for (addr_t p = start; p < start + (1 << 20); p += 1 << 14)
            CHECK(ledger_extent(l, p + (1 << 13), &t));
        for (addr_t p = start; p < start + (1 << 20); p += 1 << 14) {
            ledger_block_add(l, p, 1 << 12);
            ledger_table_set(l, p, 1 << 13, &p, 1);
        }
    }
    for (addr_t start = 1 << 20; start < 100 << 20; start += 1 << 20)
        CHECK(ledger_remove(l, start, NULL));
}

TEST(memory_is_used_again) {
    struct ledger *l = ledger_new();
    live_through(l);
    size_t before = mapped_bytes();
    for (int i = 0; i < 50; i++)
        live_through(l);
    CHECK_EQ(mapped_bytes(), before);
    ledger_delete(l);
    CHECK(mapped_bytes() < before - (1 << 20));
}

#endif

/* A checker that sees nothing proves nothing. */
TEST(the_checker_sees_damage) {
    struct ledger *l = ledger_new();
    struct touch t;
    addr_t pointer = 0x1000;
    for (addr_t i = 1; i <= 100; i++)
        add(l, i << 12, 1 << 12);
    CHECK(ledger_extent(l, 0x1800, &t));
    ledger_block_add(l, 0x2000, 0x100);
    ledger_table_set(l, 0x3000, 0x100, &pointer, 1);
    ledger_check(l);
    CHECK_SIGNAL(SIGABRT, (put(&l->observed, 7), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (l->last_id = 5, ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (put(&l->seen[0], 0), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (put(&l->lowest, 0x1001), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (put(&l->allocations.count, 99), ledger_check(l)));
    struct range r;
    CHECK(addrmap_before(&l->allocations, 0x5000, &r));
    CHECK_SIGNAL(SIGABRT, (r.end = 0x7000, addrmap_set(&l->allocations, &r), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (put(&record_of(&r)->charged, 1), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (put(&record_of(&r)->observed, 1), ledger_check(l)));
    CHECK_SIGNAL(SIGABRT, (addrmap_erase(&l->allocations, 0x2000, 0x2001), ledger_check(l)));
    ledger_check(l);
}
