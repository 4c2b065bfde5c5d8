/* The quota of the ledger. */
#include "ledger/ledger.h"

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

static void limit_all(struct ledger *l, uint64_t bytes) {
    for (int device = 0; device < DEVICE_MAX; device++)
        ledger_limit(l, device, bytes);
}

static bool take(struct ledger *l, int device, uint64_t bytes) {
    bool reserved = ledger_reserve(l, device, bytes);
    if (reserved)
        ledger_commit(l, device, bytes);
    return reserved;
}

static bool take_managed(struct ledger *l, int device, uint64_t bytes) {
    bool reserved = ledger_reserve_managed(l, bytes);
    if (reserved)
        ledger_commit_managed(l, device, bytes);
    return reserved;
}

TEST(without_a_limit_everything_is_charged) {
    struct ledger *l = ledger_new();
    CHECK(take(l, 0, 1ull << 50));
    CHECK(take(l, 0, 0));
    CHECK_EQ(ledger_used(l, 0), 1ull << 50);
    CHECK_EQ(ledger_used(l, 1), 0);
}

TEST(the_limit_is_reached_and_not_passed) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    CHECK(!take(l, 0, 1001));
    CHECK(take(l, 0, 600));
    CHECK(!take(l, 0, 401));
    CHECK_EQ(ledger_used(l, 0), 600);
    CHECK(take(l, 0, 400));
    CHECK(take(l, 0, 0));
    CHECK(!take(l, 0, 1));
    CHECK_EQ(ledger_used(l, 0), 1000);
}

TEST(what_is_only_promised_counts_against_the_limit_alone) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    CHECK(ledger_reserve(l, 0, 600));
    CHECK(!ledger_reserve(l, 0, 401));
    CHECK(ledger_promised(l, 0));
    CHECK_EQ(ledger_used(l, 0), 0);
    CHECK_EQ(ledger_plain(l, 0), 0);
    ledger_cancel(l, 0, 600); /* the driver refused: as if nobody had asked */
    CHECK(!ledger_promised(l, 0));
    CHECK_EQ(ledger_peak(l, 0), 0);
    CHECK(ledger_reserve(l, 0, 1000));
    ledger_commit(l, 0, 1000);
    CHECK(!ledger_promised(l, 0));
    CHECK_EQ(ledger_plain(l, 0), 1000);
    CHECK_EQ(ledger_peak(l, 0), 1000);
}

TEST(what_no_number_holds_is_not_charged) {
    struct ledger *l = ledger_new();
    ledger_charge(l, 0, 1000);
    ledger_charge(l, 0, UINT64_MAX);
    CHECK_EQ(ledger_used(l, 0), 1000);
    CHECK_EQ(ledger_plain(l, 0), 1000);
}

TEST(each_device_has_the_limit_to_itself) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    for (int device = 0; device < DEVICE_MAX; device++) {
        CHECK(take(l, device, 900 + (uint64_t)device));
        CHECK(!take(l, device, 101));
    }
    for (int device = 0; device < DEVICE_MAX; device++)
        CHECK_EQ(ledger_used(l, device), 900 + device);
}

TEST(a_cancelled_reservation_can_be_had_again) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    CHECK(take(l, 0, 1000));
    ledger_credit(l, 0, 300);
    CHECK_EQ(ledger_used(l, 0), 700);
    CHECK(!take(l, 0, 301));
    CHECK(take(l, 0, 300));
}

TEST(never_below_zero_nor_round_the_corner) {
    struct ledger *l = ledger_new();
    CHECK(take(l, 0, 10));
    ledger_credit(l, 0, 11);
    CHECK_EQ(ledger_used(l, 0), 0);
    CHECK(take(l, 0, UINT64_MAX));
    CHECK(!take(l, 0, 1));
    CHECK_EQ(ledger_used(l, 0), UINT64_MAX);
    limit_all(l, 1000);
    CHECK(!take(l, 1, UINT64_MAX));
    CHECK(take(l, 1, 999));
    CHECK(!take(l, 1, UINT64_MAX - 10));
}

TEST(the_peak_stays) {
    struct ledger *l = ledger_new();
    CHECK(take(l, 0, 700));
    ledger_credit(l, 0, 700);
    CHECK(take(l, 0, 300));
    CHECK_EQ(ledger_peak(l, 0), 700);
    CHECK(take(l, 0, 500));
    CHECK_EQ(ledger_peak(l, 0), 800);
    CHECK_EQ(ledger_peak(l, 1), 0);
}

TEST(a_limit_set_below_what_is_held_stops_what_comes) {
    struct ledger *l = ledger_new();
    CHECK(take(l, 0, 1000));
    limit_all(l, 500);
    CHECK(!take(l, 0, 1));
    CHECK(!take(l, 0, 0));
    ledger_credit(l, 0, 600);
    CHECK(take(l, 0, 100));
    limit_all(l, 0);
    CHECK(take(l, 0, 1 << 30));
}

TEST(memory_of_no_device_is_neither_limited_nor_counted) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    const int none[] = {DEVICE_NONE, DEVICE_MAX, DEVICE_MAX + 1, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK(take(l, none[i], 1 << 20));
        CHECK_EQ(ledger_used(l, none[i]), 0);
        CHECK_EQ(ledger_peak(l, none[i]), 0);
        ledger_credit(l, none[i], 1 << 20);
    }
    for (int device = 0; device < DEVICE_MAX; device++)
        CHECK_EQ(ledger_used(l, device), 0);
}

TEST(an_allocation_credits_what_it_was_charged) {
    struct ledger *l = ledger_new();
    struct allocation a = {.start = 0x1000, .bytes = 100, .charged = 512, .device = 2}, gone;
    limit_all(l, 1000);
    CHECK(take(l, 2, 512));
    CHECK(ledger_add(l, &a));
    CHECK_EQ(ledger_used(l, 2), 512);
    CHECK(ledger_remove(l, 0x1000, &gone));
    CHECK_EQ(gone.charged, 512);
    CHECK(!take(l, 2, 512)); /* the driver's free is under way */
    ledger_freed(l, &gone);
    CHECK_EQ(ledger_used(l, 2), 0);
    CHECK_EQ(ledger_plain(l, 2), 0);
    CHECK(take(l, 2, 1000));
}

TEST(managed_memory_is_limited_by_pages_and_for_all_devices) {
    struct ledger *l = ledger_new();
    limit_all(l, 1000);
    ledger_limit_managed(l, 8 << 20);
    CHECK(take_managed(l, 0, 3 << 20)); /* beyond what the device may hold of plain memory */
    CHECK_EQ(ledger_used(l, 0), 3 << 20);
    CHECK_EQ(ledger_plain(l, 0), 0);
    CHECK_EQ(ledger_managed(l), 4 << 20);
    CHECK(take(l, 0, 1000));
    CHECK(!take(l, 0, 1));
    CHECK(!take_managed(l, 1, (4 << 20) + 1));
    CHECK(!take_managed(l, 1, UINT64_MAX));
    CHECK_EQ(ledger_used(l, 1), 0);
    CHECK(take_managed(l, 1, 4 << 20));
    CHECK(!take_managed(l, 2, 1));
    ledger_cancel_managed(l, 3 << 20);
    ledger_credit_managed(l, 0, 3 << 20);
    CHECK_EQ(ledger_used(l, 0), 1000);
    CHECK_EQ(ledger_plain(l, 0), 1000);
    CHECK_EQ(ledger_managed(l), 4 << 20);
    CHECK(take_managed(l, 2, 1));
}

TEST(pages_stay_charged_until_the_memory_is_freed) {
    struct ledger *l = ledger_new();
    struct allocation a = {.start = 2 << 20, .bytes = 3 << 20, .charged = 3 << 20, .device = 1, .managed = 1}, gone;
    ledger_limit_managed(l, 4 << 20);
    CHECK(take_managed(l, 1, 3 << 20));
    CHECK(ledger_add(l, &a));
    ledger_check(l);
    CHECK(ledger_remove(l, a.start, &gone));
    CHECK_EQ(gone.managed, 1);
    CHECK_EQ(ledger_used(l, 1), 0);
    CHECK(!take_managed(l, 1, 1));
    ledger_restore(l, &gone); /* the driver refused the free */
    CHECK_EQ(ledger_used(l, 1), 3 << 20);
    CHECK_EQ(ledger_managed(l), 4 << 20);
    CHECK(ledger_remove(l, a.start, &gone));
    ledger_commit_managed(l, 1, 3 << 20);
    CHECK(ledger_add(l, &a));
    CHECK_EQ(ledger_used(l, 1), 3 << 20);
    CHECK(ledger_remove(l, a.start, &gone));
    ledger_freed(l, &gone);
    CHECK_EQ(ledger_managed(l), 0);
    ledger_check(l);
}

enum { THREADS = 8, ROUNDS = 20 * 1000, LIMIT = 1000 };

static struct ledger *shared;
static atomic_int running;

static void *reserve_and_cancel(void *seed) {
    uint64_t held = 0, state = (uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t bytes = (state >> 33) % (LIMIT / 2);
        if (held > 0) {
            ledger_credit(shared, 0, held);
            held = 0;
        } else if (take(shared, 0, bytes)) {
            held = bytes;
        }
    }
    ledger_credit(shared, 0, held);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

TEST(no_race_passes_the_limit) {
    pthread_t threads[THREADS];
    uint64_t most = 0;
    shared = ledger_new();
    limit_all(shared, LIMIT);
    atomic_store(&running, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, reserve_and_cancel, (void *)(i + 1)), 0);
    while (atomic_load(&running) > 0) {
        uint64_t used = ledger_used(shared, 0);
        CHECK(used <= LIMIT);
        most = used > most ? used : most;
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(ledger_used(shared, 0), 0);
    CHECK(ledger_peak(shared, 0) <= LIMIT && ledger_peak(shared, 0) >= most);
}
