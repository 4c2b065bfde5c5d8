/* Pages that are touched once a period: used where they lie, if that makes laps shorter. */
#include "engine_letters.h"

/* Eight pages in a circle, five frames. An operation whose page has to come takes `fill` ns, one that uses it where it
 * lies `use`. */
enum { ROUND = 8 };
static uint64_t fill, use;

static void operation(uint64_t key, const char *pages, uint64_t mode) {
    uint64_t late = stats().late_operations, used = stats().in_place_bytes;
    uint64_t x = issue(key, pages, mode);
    for (int answer = admit(x); answer == ULMS_HOLD; answer = admit(x))
        CHECK(step());
    now += 1 + (stats().late_operations - late) * fill + (stats().in_place_bytes - used) / PAGE * use;
    ulms_engine_retired(e, x, now);
    engine_check(e);
}

static void round_of(uint64_t mode) {
    for (char c = 'a'; c < 'a' + ROUND; c++)
        operation(1 + (uint64_t)c, (char[]){c, 0}, mode);
}

static struct ulms_engine_stats rounds(int n, uint64_t mode) {
    struct ulms_engine_stats before = stats(), after;
    for (int i = 0; i < n; i++)
        round_of(mode);
    after = stats();
    after.filled_bytes -= before.filled_bytes;
    after.in_place_bytes -= before.in_place_bytes;
    after.in_place_written_bytes -= before.in_place_written_bytes;
    after.late_operations -= before.late_operations;
    return after;
}

TEST(what_is_faster_in_place_stays_there) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_READ);
    struct ulms_engine_stats s = rounds(10, ULMS_TOUCH_READ);
    CHECK_EQ(s.filled_bytes, 0);
    CHECK_EQ(s.late_operations, 0);
    CHECK_EQ(s.short_operations, 0);
    CHECK_EQ(s.in_place_bytes, 10 * 3 * PAGE);
    CHECK_EQ(s.in_place_written_bytes, 0);
    IN("");
    OUT("");
}

TEST(what_is_slower_in_place_comes) {
    fill = 5, use = 20;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    CHECK(rounds(20, ULMS_TOUCH_READ).in_place_bytes > 0); /* it was tried */
    struct ulms_engine_stats s = rounds(10, ULMS_TOUCH_READ);
    CHECK_EQ(s.in_place_bytes, 0);
    CHECK(s.filled_bytes >= 10ull * 3 * PAGE);
}

/* Whichever operation happens to take long once. */
TEST(one_slow_lap_decides_nothing) {
    for (int slow = 0; slow < 8 * ROUND; slow++) {
        use = 20;
        open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
        for (int i = 0; i < 20 * ROUND; i++) {
            char page[] = {(char)('a' + i % ROUND), 0};
            fill = i == slow ? 500 : 5;
            operation(1 + (uint64_t)page[0], page, ULMS_TOUCH_READ);
        }
        CHECK_EQ(rounds(10, ULMS_TOUCH_READ).in_place_bytes, 0);
        ulms_engine_free(e);
    }
}

/* What others made slow at first, and is not any more. */
TEST(what_was_close_is_tried_again) {
    fill = 6, use = 8;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_READ);
    fill = 4;
    CHECK_EQ(rounds(50, ULMS_TOUCH_READ).filled_bytes, 0);
    CHECK(rounds(40, ULMS_TOUCH_READ).filled_bytes > 0);
    CHECK_EQ(rounds(200, ULMS_TOUCH_READ).in_place_bytes, 0);
    CHECK(rounds(140, ULMS_TOUCH_READ).in_place_bytes > 0); /* after four times as many */
}

TEST(what_was_not_close_is_not) {
    fill = 100, use = 8;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_READ);
    CHECK_EQ(rounds(200, ULMS_TOUCH_READ).filled_bytes, 0);
}

TEST(what_is_written_rests_only_where_the_backend_can) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    CHECK_EQ(rounds(30, ULMS_TOUCH_UPDATE).in_place_bytes, 0);
    ulms_engine_free(e);
    open_engine_with(ULMS_IN_PLACE_ALL, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_UPDATE);
    struct ulms_engine_stats s = rounds(10, ULMS_TOUCH_UPDATE);
    CHECK_EQ(s.filled_bytes, 0);
    CHECK_EQ(s.in_place_written_bytes, 10 * 3 * PAGE);
}

TEST(nothing_is_tried_while_nothing_waits) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_ALL, NULL, ROUND, 1, 1);
    CHECK_EQ(rounds(30, ULMS_TOUCH_READ).in_place_bytes, 0);
}

TEST(without_times_nothing_is_tried) {
    open_engine_with(ULMS_IN_PLACE_ALL, NULL, 5, 1, 1);
    for (int i = 0; i < 30 * ROUND; i++) {
        char page[] = {(char)('a' + i % ROUND), 0};
        uint64_t x = issue(1 + i % ROUND, page, ULMS_TOUCH_READ);
        while (admit(x) == ULMS_HOLD)
            CHECK(step());
        ulms_engine_retired(e, x, 0);
    }
    CHECK_EQ(stats().in_place_bytes, 0);
}

TEST(with_more_room_they_come_back) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_READ);
    ulms_engine_budget(e, ROUND * PAGE);
    struct ulms_move m;
    for (int i = 0; i < 3; i++) {
        CHECK(ulms_engine_next(e, ULMS_LANE_IN, &m));
        CHECK_EQ(m.flags, ULMS_MOVE_KEEP | ULMS_MOVE_EARLY);
        ulms_engine_moved(e, m.id, 1);
    }
    IN("");
    struct ulms_engine_stats s = rounds(3, ULMS_TOUCH_READ);
    CHECK_EQ(s.in_place_bytes + s.filled_bytes + s.late_operations, s.late_operations);
}

/* Another operation touches a page that rests: it is not touched once any more, and comes. */
TEST(a_second_touch_brings_it) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    rounds(14, ULMS_TOUCH_READ);
    char lies[] = {'a', 0};
    for (; page_find(&e->table, at(lies[0]) / PAGE)->state == PAGE_RESIDENT; lies[0]++)
        ;
    uint64_t used = stats().in_place_bytes, x = issue(99, lies, ULMS_TOUCH_READ);
    CHECK_EQ(admit(x), ULMS_HOLD);
    while (admit(x) == ULMS_HOLD)
        CHECK(step());
    CHECK_EQ(stats().in_place_bytes, used);
}

/* Going round again it matches the time before, since when each page was touched often; then the nearest round. */
TEST(what_was_done_before_is_soon_used_in_place_again) {
    fill = 10, use = 5;
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 5, 1, 1);
    for (int n = 0; n < 3; n++) {
        for (uint64_t i = 0; i < 40; i++)
            run_slow(100 + i % 7, "xy", ULMS_TOUCH_UPDATE);
        rounds(n < 2 ? 60 : 25, ULMS_TOUCH_READ);
    }
    struct ulms_engine_stats s = rounds(10, ULMS_TOUCH_READ);
    CHECK_EQ(s.filled_bytes, 0);
    CHECK(s.in_place_bytes >= 10ull * 3 * PAGE);
}

/* A small buffer is now here, now there: two rounds repeat more exactly than one, but hardly. */
TEST(a_small_buffer_that_alternates_does_not_make_two_rounds_a_period) {
    fill = 40, use = 5; /* nothing is tried again */
    open_engine_with(ULMS_IN_PLACE_READ, NULL, 12, 2, 2);
    uint64_t filled = 0;
    for (int n = 0; n < 200; n++) {
        if (n == 30)
            filled = stats().filled_bytes;
        for (char c = 'a'; c < 'a' + 2 * ROUND; c += 2)
            operation(1 + (uint64_t)c, (char[]){c, (char)(c + 1), 0}, ULMS_TOUCH_READ);
        operation(200, n % 2 ? "y" : "z", ULMS_TOUCH_UPDATE);
    }
    CHECK_EQ(stats().filled_bytes, filled);
    CHECK(stats().in_place_bytes > 170ull * 4 * PAGE);
}
