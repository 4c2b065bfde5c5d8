/* The ordered policies: what they decide when an operation is issued. */
#include "engine_letters.h"

static void moves_in_order(const char *moves, uint64_t after, uint64_t needs, int lane) {
    struct ulms_move m;
    CHECK_STR(next(lane, &m), moves);
    CHECK_EQ(m.after, after);
    CHECK_EQ(m.needs, needs);
    ulms_engine_moved(e, m.id, 1);
}

TEST(lru_orders_its_moves) {
    open_engine("lru", 4, 4, 1);
    uint64_t wait, x = issue(1, "abc", ULMS_TOUCH_UPDATE);
    CHECK_EQ(ulms_engine_admit(e, x, 0, &wait), ULMS_RUN);
    CHECK_EQ(wait, 1);
    moves_in_order("+abcD", 0, 0, ULMS_LANE_IN);
    uint64_t y = issue(2, "de", ULMS_TOUCH_READ); /* a leaves, after x; d finds a free frame */
    CHECK_EQ(ulms_engine_admit(e, y, 0, &wait), ULMS_RUN);
    CHECK_EQ(wait, 4);
    moves_in_order("-a", x, 0, ULMS_LANE_OUT);
    moves_in_order("+dD", x, 0, ULMS_LANE_IN);
    moves_in_order("+eD", x, 2, ULMS_LANE_IN);
    ulms_engine_retired(e, x, 0);
    ulms_engine_retired(e, y, 0);
    issue(3, "af", ULMS_TOUCH_READ);
    moves_in_order("-bc", 0, 0, ULMS_LANE_OUT);
    moves_in_order("+aK", 0, 5, ULMS_LANE_IN);
    moves_in_order("+fD", 0, 5, ULMS_LANE_IN);
    CHECK_STR(next(ULMS_LANE_IN, &(struct ulms_move){0}), "");
    engine_check(e);
}

TEST(pump_moves_every_byte_in_one_lane) {
    open_engine("pump", 2, 4, 1);
    uint64_t x = issue(1, "ab", ULMS_TOUCH_READ), y = issue(2, "cd", ULMS_TOUCH_READ);
    moves_in_order("+ab", 0, 0, ULMS_LANE_IN);
    moves_in_order("-ab", x, 0, ULMS_LANE_IN);
    moves_in_order("+cd", x, 2, ULMS_LANE_IN);
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
    moves_in_order("-ab", x, 0, ULMS_LANE_IN);
    CHECK_STR(next(ULMS_LANE_IN, &(struct ulms_move){0}), "");
    CHECK_EQ(stats().faulted_bytes, 5 * PAGE);
    CHECK_EQ(stats().resident_bytes, 3 * PAGE);
    engine_check(e);
}

TEST(more_than_what_leaves_can_make_room_for) {
    open_engine("pump", 2, 4, 1);
    uint64_t wait, x = issue(1, "a", ULMS_TOUCH_READ);
    moves_in_order("+a", 0, 0, ULMS_LANE_IN);
    uint64_t y = issue(2, "bcd", ULMS_TOUCH_READ);
    CHECK_EQ(ulms_engine_admit(e, y, 0, &wait), ULMS_RUN_SHORT);
    moves_in_order("-a", x, 0, ULMS_LANE_IN);
    moves_in_order("+b", x, 0, ULMS_LANE_IN); /* a frame was free */
    moves_in_order("+c", x, 2, ULMS_LANE_IN);
    moves_in_order("+d", x, 0, ULMS_LANE_IN); /* over the budget */
    CHECK_EQ(wait, 5);
    CHECK_EQ(stats().resident_bytes, 3 * PAGE);
}
