/* A program and a device around an engine for test_engine_bench.py, so that calls from Python do not count: operations
 * over and over, at most `window` under way; a move is done the moment it is given out. */
#include "ulms.h"

static void move_all(struct ulms_engine *e) {
    struct ulms_move move;
    int found;
    do {
        found = 0;
        for (int lane = ULMS_LANE_IN; lane <= ULMS_LANE_OUT; lane++)
            if (ulms_engine_next(e, lane, &move)) {
                ulms_engine_moved(e, move.id, 1);
                found = 1;
            }
    } while (found);
}

/* `times` operations; operation i is key i % n and touches touches[each * (i % n)] to the next `each`. How many were
 * admitted with all their pages. */
uint64_t loop_engine(struct ulms_engine *e, const struct ulms_engine_touch *touches, uint64_t each, uint64_t n,
                     uint64_t times, uint64_t window) {
    enum { WINDOW_MOST = 1024 };
    uint64_t issued[WINDOW_MOST], whole = 0, wait;
    for (uint64_t i = 0; i < times; i++) {
        if (i >= window)
            ulms_engine_retired(e, issued[(i - window) % WINDOW_MOST], 1000);
        uint64_t serial = ulms_engine_issued(e, i % n, &touches[each * (i % n)], each);
        int verdict = ulms_engine_admit(e, serial, 0, &wait);
        if (verdict == ULMS_HOLD) {
            move_all(e);
            verdict = ulms_engine_admit(e, serial, 0, &wait);
        }
        whole += verdict == ULMS_RUN;
        issued[i % WINDOW_MOST] = serial;
    }
    for (uint64_t i = times > window ? times - window : 0; i < times; i++)
        ulms_engine_retired(e, issued[i % WINDOW_MOST], 1000);
    move_all(e);
    return whole;
}
