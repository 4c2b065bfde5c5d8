#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>

#include "observe/held.h"
#include "observe/stats.h"

enum { WORST = 5 };

TEST(the_worst_come_first) {
    struct ulms_held worst[WORST];
    CHECK_EQ(held_worst(worst, WORST), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "kernel %d", (int)i);
        held_add(i, name, 100 * (i * 7 % 20), i);
        held_add(i, name, 1, 1);
    }
    CHECK_EQ(held_worst(worst, WORST), WORST);
    CHECK_STR(worst[0].name, "kernel 17");
    CHECK_EQ(worst[0].ns, 1901);
    CHECK_EQ(worst[0].times, 2);
    CHECK_EQ(worst[0].missing_bytes, 18);
    for (int i = 1; i < WORST; i++)
        CHECK(worst[i - 1].ns > worst[i].ns);
    CHECK_EQ(worst[WORST - 1].ns, 1501);
}

TEST(long_names_are_cut_off) {
    char name[1000];
    struct ulms_held worst;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    held_add(1, name, 1, 1);
    CHECK_EQ(held_worst(&worst, 1), 1);
    CHECK_EQ(strlen(worst.name), sizeof worst.name - 1);
}

TEST(what_finds_no_row_is_summed_up) {
    static struct ulms_held all[ULMS_HELD + 1];
    enum { KEYS = 1000 };
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t key = 1; key <= KEYS; key++)
            held_add(key << 32 | key, "name", key, 1);
    size_t n = held_worst(all, ULMS_HELD + 1);
    uint64_t ns = 0, times = 0, bytes = 0;
    CHECK_EQ(n, ULMS_HELD);
    CHECK_STR(all[0].name, "(others)");
    CHECK_EQ(all[0].times, 2 * (KEYS - (ULMS_HELD - 1)));
    for (size_t i = 0; i < n; i++) {
        ns += all[i].ns;
        times += all[i].times;
        bytes += all[i].missing_bytes;
    }
    CHECK_EQ(ns, KEYS * (KEYS + 1));
    CHECK_EQ(times, 2 * KEYS);
    CHECK_EQ(bytes, 2 * KEYS);
}

enum { THREADS = 8, ADDS = 20000, NAMES = 300 };

static void *add_many(void *unused) {
    for (uint64_t i = 0; i < ADDS; i++)
        held_add(1 + i % NAMES, i % NAMES % 2 ? "odd" : "even", 1, 2);
    return unused;
}

/* Each key has one row, and whoever sees a row sees its name. */
TEST(threads_share_the_rows) {
    static struct ulms_held all[ULMS_HELD];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int look = 0; look < 100; look++) {
        size_t n = held_worst(all, ULMS_HELD);
        for (size_t i = 0; i < n; i++)
            CHECK(strcmp(all[i].name, all[i].key == UINT64_MAX ? "(others)" : all[i].key % 2 ? "even" : "odd") == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    size_t n = held_worst(all, ULMS_HELD);
    uint64_t times = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(all[i].missing_bytes, 2 * all[i].times);
        times += all[i].times;
        for (size_t k = 0; k < i; k++)
            CHECK(all[k].key != all[i].key);
    }
    CHECK_EQ(n, ULMS_HELD);
    CHECK_EQ(times, (uint64_t)THREADS * ADDS);
}

TEST(they_lie_behind_the_counters) {
    CHECK(stats_open(""));
    held_add(7, "kernel", 5, 6);
    const struct ulms_stats *s = ulms_stats();
    CHECK_EQ(s->held, ULMS_HELD);
    uint64_t ns = 0;
    for (uint32_t i = 0; i < s->held; i++)
        ns += ((const struct ulms_held *)((const char *)s + s->held_at + i * s->held_bytes))->ns;
    CHECK_EQ(ns, 5);
}
