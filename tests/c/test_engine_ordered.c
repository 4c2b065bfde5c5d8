/* The ordered policies: what they decide when an operation is issued. */
#include "engine_letters.h"

static void moves_in_order(const char *moves, uint64_t after) {
    struct ulms_move m;
    CHECK_STR(next(ULMS_LANE_IN, &m), moves);
    CHECK_EQ(m.after, after);
    ulms_engine_moved(e, m.id, 1);
}

TEST(pump_moves_every_byte_in_one_lane) {
    open_engine("pump", 2, 4, 1);
    uint64_t x = issue(1, "ab", ULMS_TOUCH_READ), y = issue(2, "cd", ULMS_TOUCH_READ);
    moves_in_order("+ab", 0);
    moves_in_order("-ab", x);
    moves_in_order("+cd", x);
    ulms_engine_retired(e, y, 0);
    ulms_engine_retired(e, x, 0);
    CHECK_EQ(stats().filled_bytes, 4 * PAGE);
    engine_check(e);
}

TEST(none_leaves_it_to_faults) {
    open_engine("none", 2, 4, 1);
    uint64_t wait, x = issue(1, "ab", ULMS_TOUCH_READ);
    CHECK_EQ(ulms_engine_admit(e, x, 0, &wait), ULMS_RUN);
    CHECK_EQ(wait, 0);
    uint64_t y = issue(2, "cde", ULMS_TOUCH_READ);
    CHECK_EQ(ulms_engine_admit(e, y, 0, &wait), ULMS_RUN_SHORT);
    CHECK_EQ(wait, 1);
    moves_in_order("-ab", x);
    CHECK_STR(next(ULMS_LANE_IN, &(struct ulms_move){0}), "");
    CHECK_EQ(stats().faulted_bytes, 5 * PAGE);
    CHECK_EQ(stats().resident_bytes, 3 * PAGE);
    engine_check(e);
}

TEST(more_than_what_leaves_can_make_room_for) {
    open_engine("pump", 2, 4, 1);
    uint64_t wait, x = issue(1, "a", ULMS_TOUCH_READ);
    moves_in_order("+a", 0);
    uint64_t y = issue(2, "bcd", ULMS_TOUCH_READ);
    CHECK_EQ(ulms_engine_admit(e, y, 0, &wait), ULMS_RUN_SHORT);
    moves_in_order("-a", x);
    moves_in_order("+bcd", x); /* one over the budget */
    CHECK_EQ(wait, 3);
    CHECK_EQ(stats().resident_bytes, 3 * PAGE);
}
