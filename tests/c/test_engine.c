/* What the engine decides, on programs small enough to follow by hand. Pages are letters from 'a' on; a move is written
 * as `+ab` (in) or `-ab` (out), with its flags behind: d(ead), c(lean), k(eep), e(arly). */
#include "test.h"

#include "engine/engine.h"

enum { PAGE = 4096, LETTERS = 26 };

#define BASE (0x7f0000000000ull)

static struct ulms_engine *e;

static void open_engine(const char *policy, uint64_t budget, uint64_t run, uint64_t ahead) {
    struct ulms_engine_settings s = {.policy = policy,
                                     .page_bytes = PAGE,
                                     .budget = budget * PAGE,
                                     .run_bytes = run * PAGE,
                                     .ahead_bytes = ahead * PAGE,
                                     .keeps = 1,
                                     .faults = 1};
    e = ulms_engine_new(&s);
    CHECK(e != NULL);
    CHECK(ulms_engine_allocated(e, BASE, (uint64_t)LETTERS * PAGE));
}

static uint64_t at(char letter) {
    return BASE + (uint64_t)(letter - 'a') * PAGE;
}

/* "ab c" touches three pages, each by a touch of its own, in the mode. */
static uint64_t issue(uint64_t key, const char *pages, uint64_t mode) {
    struct ulms_engine_touch touches[LETTERS];
    size_t n = 0;
    for (const char *p = pages; *p; p++)
        touches[n++] = (struct ulms_engine_touch){at(*p), PAGE, mode};
    return ulms_engine_issued(e, key, touches, n);
}

static int admit(uint64_t serial) {
    uint64_t wait;
    return ulms_engine_admit(e, serial, 0, &wait);
}

/* The next move of the lane in letters; "" when there is none. */
static const char *next(int lane, struct ulms_move *m) {
    static char said[64];
    size_t n = 0;
    said[0] = 0;
    if (!ulms_engine_next(e, lane, m))
        return said;
    said[n++] = m->kind == ULMS_FILL ? '+' : '-';
    for (uint64_t a = m->start; a < m->start + m->bytes; a += PAGE)
        said[n++] = (char)('a' + (a - BASE) / PAGE);
    for (size_t i = 0; i < 4; i++)
        if (m->flags & 1u << i)
            said[n++] = "DCKE"[i];
    said[n] = 0;
    return said;
}

static void expect(int lane, const char *moves) {
    struct ulms_move m;
    CHECK_STR(next(lane, &m), moves);
    if (*moves)
        ulms_engine_moved(e, m.id, 1);
    engine_check(e);
}

#define IN(moves)  expect(ULMS_LANE_IN, moves)
#define OUT(moves) expect(ULMS_LANE_OUT, moves)

/* One move of each lane, done at once. False: there is none. */
static bool step(void) {
    struct ulms_move m;
    bool any = false;
    for (int lane = 0; lane < 2; lane++)
        if (ulms_engine_next(e, lane, &m)) {
            ulms_engine_moved(e, m.id, 1);
            any = true;
        }
    return any;
}

/* Runs an operation on a link that has time for nothing but what it waits for. Returns how it was admitted. */
static int run_slow(uint64_t key, const char *pages, uint64_t mode) {
    uint64_t serial = issue(key, pages, mode);
    int first = admit(serial);
    for (int answer = first; answer == ULMS_HOLD; answer = admit(serial))
        CHECK(step());
    ulms_engine_retired(e, serial, 0);
    return first;
}

/* On a link that has time for everything. */
static int run(uint64_t key, const char *pages, uint64_t mode) {
    int first = run_slow(key, pages, mode);
    while (step())
        ;
    return first;
}

static struct ulms_engine_stats stats(void) {
    struct ulms_engine_stats s;
    ulms_engine_stats(e, &s);
    return s;
}

TEST(settings_that_make_no_sense) {
    struct ulms_engine_settings good = {.page_bytes = PAGE, .budget = PAGE}, bad = good;
    bad.policy = "clairvoyant";
    CHECK(!ulms_engine_new(&bad));
    bad = good;
    bad.page_bytes = 3 * PAGE;
    CHECK(!ulms_engine_new(&bad));
    bad.page_bytes = 8;
    CHECK(!ulms_engine_new(&bad));
    bad.page_bytes = 0;
    CHECK(!ulms_engine_new(&bad));
    e = ulms_engine_new(&good);
    CHECK(e != NULL);
    CHECK(!ulms_engine_allocated(e, BASE + 1, PAGE));
    CHECK(!ulms_engine_allocated(e, BASE, PAGE + 1));
    CHECK(!ulms_engine_allocated(e, BASE, 0));
    CHECK(ulms_engine_allocated(e, UINT64_MAX - PAGE + 1, PAGE));
    CHECK(!ulms_engine_allocated(e, UINT64_MAX - PAGE + 1, 2 * PAGE));
    ulms_engine_freed(e, BASE, UINT64_MAX);
    CHECK_EQ(stats().resident_bytes, 0);
    ulms_engine_free(e);
    ulms_engine_free(NULL);
}

TEST(policies_are_rows) {
    CHECK_STR(ulms_policy(0)->name, "ahead");
    for (size_t i = 0; i < ulms_policy_count(); i++) {
        struct ulms_engine_settings s = {.policy = ulms_policy(i)->name, .page_bytes = PAGE, .budget = PAGE};
        e = ulms_engine_new(&s);
        CHECK(e != NULL);
        ulms_engine_free(e);
    }
    CHECK(ulms_policy(ulms_policy_count()) == NULL);
}

TEST(what_is_not_the_engines_may_run) {
    open_engine(NULL, 4, 4, 1);
    struct ulms_engine_touch t = {BASE + LETTERS * PAGE, PAGE, ULMS_TOUCH_READ};
    CHECK_EQ(ulms_engine_issued(e, 1, &t, 1), 0);
    CHECK_EQ(ulms_engine_issued(e, 1, NULL, 0), 0);
    CHECK_EQ(admit(0), ULMS_RUN);
    CHECK_EQ(admit(77), ULMS_RUN);
    ulms_engine_retired(e, 77, 0);
    ulms_engine_moved(e, 77, 1);
    t = (struct ulms_engine_touch){0, UINT64_MAX, ULMS_TOUCH_READ};
    CHECK_EQ(ulms_engine_issued(e, 1, &t, 1), 1);
    CHECK_EQ(stats().touched_bytes, LETTERS * PAGE);
}

TEST(held_until_its_pages_are_here) {
    open_engine(NULL, 4, 8, 1);
    uint64_t x = issue(1, "bac", ULMS_TOUCH_UPDATE);
    CHECK_EQ(admit(x), ULMS_HOLD);
    struct ulms_move m;
    CHECK_STR(next(ULMS_LANE_IN, &m), "+abcD");
    CHECK_EQ(admit(x), ULMS_HOLD);
    ulms_engine_moved(e, m.id, 1);
    CHECK_EQ(admit(x), ULMS_RUN);
    CHECK_EQ(stats().late_operations, 1);
    CHECK_EQ(stats().dead_bytes, 3 * PAGE);
    uint64_t y = issue(2, "de", ULMS_TOUCH_READ);
    IN("+dD");
    OUT(""); /* x runs */
    IN("");
    CHECK_EQ(admit(y), ULMS_HOLD);
    ulms_engine_retired(e, x, 0);
    OUT("-abc");
    IN("+eD");
    CHECK_EQ(admit(y), ULMS_RUN);
    CHECK_EQ(stats().evicted_bytes, 3 * PAGE);
}

TEST(no_byte_moves_that_need_not) {
    open_engine(NULL, 1, 1, 1);
    run(1, "a", ULMS_TOUCH_WRITE);
    issue(2, "b", ULMS_TOUCH_READ);
    OUT("-a"); /* dirty */
    IN("+bD");
    CHECK_EQ(admit(2), ULMS_RUN);
    ulms_engine_retired(e, 2, 0);
    issue(3, "a", ULMS_TOUCH_READ);
    OUT("-bC"); /* only read: its host copy is as good */
    IN("+aK");
    CHECK_EQ(admit(3), ULMS_RUN);
    ulms_engine_retired(e, 3, 0);
    issue(4, "b", ULMS_TOUCH_WRITE);
    OUT("-aC");
    IN("+bD"); /* will be overwritten */
    CHECK_EQ(admit(4), ULMS_RUN);
    ulms_engine_retired(e, 4, 0);
    run(5, "c", ULMS_TOUCH_SCRATCH);
    issue(6, "b", ULMS_TOUCH_UPDATE);
    OUT("-cD"); /* it was a workspace */
    IN("+b");
    CHECK_EQ(admit(6), ULMS_RUN);
    ulms_engine_retired(e, 6, 0);
    ulms_engine_block(e, at('b') + 8, 8, 1);
    ulms_engine_block(e, at('b') + 64, 8, 1);
    ulms_engine_block(e, at('b') + 8, 8, 0);
    CHECK_EQ(stats().dead_bytes, 5 * PAGE);
    ulms_engine_block(e, at('b') + 64, 8, 0);
    issue(7, "a", ULMS_TOUCH_READ);
    OUT("-bD"); /* nobody holds a block of it */
}

TEST(one_operation_may_read_and_overwrite_a_page) {
    open_engine(NULL, 1, 1, 1);
    run(1, "a", ULMS_TOUCH_WRITE);
    run(2, "b", ULMS_TOUCH_WRITE);
    struct ulms_engine_touch t[] = {{at('a'), PAGE, ULMS_TOUCH_WRITE}, {at('a') + 64, 64, ULMS_TOUCH_READ}};
    ulms_engine_issued(e, 3, t, 2);
    OUT("-b");
    IN("+a");
}

/* Eight pages in a circle, five frames: least recently used hits nothing, farthest next touch hits what is possible. */
TEST(the_farthest_next_touch_leaves) {
    const char *pages[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    open_engine(NULL, 5, 1, 1);
    for (int i = 0; i < 80; i++)
        run_slow(1 + i % 8, pages[i % 8], ULMS_TOUCH_READ);
    uint64_t before = stats().filled_bytes;
    for (int i = 0; i < 70; i++)
        run_slow(1 + i % 8, pages[i % 8], ULMS_TOUCH_READ);
    uint64_t fills = (stats().filled_bytes - before) / PAGE;
    CHECK(fills >= 28 && fills <= 45); /* 3 of 7 at best, a few for frames made free ahead; 70 when the oldest leave */
    CHECK(stats().predicted > 130);
}

/* What comes next is here before it is asked for. */
TEST(a_learnt_loop_is_never_late) {
    const char *pages[] = {"ab", "cd", "ef", "gh", "ij", "kl"};
    open_engine(NULL, 8, 2, 4);
    for (int i = 0; i < 18; i++)
        run(1 + i % 6, pages[i % 6], ULMS_TOUCH_UPDATE);
    uint64_t late = stats().late_operations;
    for (int i = 0; i < 600; i++)
        CHECK_EQ(run(1 + i % 6, pages[i % 6], ULMS_TOUCH_UPDATE), ULMS_RUN);
    CHECK_EQ(stats().late_operations, late);
    CHECK_EQ(stats().surprises, 0);
    CHECK_EQ(stats().useless_bytes, 0);
}

/* Layers of one shape on one activation, each with weights of its own: the period is the model, not the layer. */
TEST(equal_layers_are_told_apart) {
    open_engine(NULL, 4, 1, 1);
    for (int i = 0; i < 40; i++)
        for (char layer = 'a'; layer < 'i'; layer++) {
            char weights[] = {layer, 'z', 0};
            run(1, weights, ULMS_TOUCH_READ);
            run(2, "z", ULMS_TOUCH_UPDATE);
            run(3, "yz", ULMS_TOUCH_UPDATE);
        }
    uint64_t late = stats().late_operations;
    for (int i = 0; i < 20; i++)
        for (char layer = 'a'; layer < 'i'; layer++) {
            char weights[] = {layer, 'z', 0};
            CHECK_EQ(run(1, weights, ULMS_TOUCH_READ), ULMS_RUN);
            run(2, "z", ULMS_TOUCH_UPDATE);
            run(3, "yz", ULMS_TOUCH_UPDATE);
        }
    CHECK_EQ(stats().late_operations, late);
}

TEST(an_operation_more_or_less_does_not_lose_the_track) {
    open_engine(NULL, 8, 1, 1);
    for (int i = 0; i < 200; i++) {
        char pages[] = {(char)('a' + i % 20), 0};
        run(1 + i % 20, pages, ULMS_TOUCH_READ);
    }
    uint64_t predicted = stats().predicted;
    for (int i = 0; i < 20; i++) {
        char pages[] = {(char)('a' + i), 0};
        if (i == 7)
            run(99, "y", ULMS_TOUCH_READ); /* new */
        if (i != 12)
            run(1 + i, pages, ULMS_TOUCH_READ);
    }
    CHECK_EQ(stats().surprises, 2);
    CHECK_EQ(stats().predicted - predicted, 18); /* all but the new one and the one behind the gap */
    for (int i = 0; i < 16; i++)
        run(100 + i, "z", ULMS_TOUCH_READ); /* something else altogether */
    CHECK_EQ(stats().surprises, 18);
    run(200, "z", ULMS_TOUCH_READ);
    CHECK_EQ(stats().surprises, 18); /* off track */
}

/* The rings grow under the prediction; at last positions wrap, and the prediction lies across the end. */
TEST(long_periods) {
    open_engine(NULL, 9, 1, 3);
    enum { PERIOD = 3000, KEPT = 1 << 18, WRAPS = KEPT + PERIOD };
    for (int i = 0; i < WRAPS + 100; i++) {
        char pages[] = {(char)('a' + i % PERIOD * 7 % 25), 0};
        run(1 + i % PERIOD, pages, ULMS_TOUCH_UPDATE);
        if (i % 5003 == 0 || (i > WRAPS - 100 && i < WRAPS + 100))
            engine_check(e);
    }
    CHECK(stats().surprises < 5);
    CHECK(stats().predicted > KEPT - PERIOD);
    CHECK(stats().late_operations < PERIOD + PERIOD / 4);
}

TEST(periods_longer_than_the_history_are_not_predicted) {
    open_engine(NULL, LETTERS, 1, 1);
    enum { KEPT = 1 << 18 };
    for (uint64_t i = 0; i < 2 * KEPT + 2000; i++) {
        uint64_t x = issue(i % (KEPT + 1000), "a", ULMS_TOUCH_READ);
        if (i == 0)
            IN("+aD");
        CHECK_EQ(admit(x), ULMS_RUN);
        ulms_engine_retired(e, x, 0);
    }
    CHECK_EQ(stats().predicted, 0);
    engine_check(e);
}

/* Returns how many operations were the predicted ones, of two rounds of so many operations of 1024 pages each. */
static uint64_t predicted_of(uint64_t period) {
    enum { SMALL = 16, RANGE = 2048, TOUCHED = 1024 };
    struct ulms_engine_settings s = {.page_bytes = SMALL, .budget = RANGE * SMALL};
    e = ulms_engine_new(&s);
    CHECK(e && ulms_engine_allocated(e, BASE, RANGE * SMALL));
    ulms_engine_placed(e, BASE, RANGE * SMALL);
    for (uint64_t i = 0; i < 2 * period; i++) {
        struct ulms_engine_touch t = {BASE + i % period % TOUCHED * SMALL, TOUCHED * SMALL, ULMS_TOUCH_READ};
        uint64_t x = ulms_engine_issued(e, i % period, &t, 1);
        CHECK_EQ(admit(x), ULMS_RUN);
        ulms_engine_retired(e, x, 0);
    }
    uint64_t predicted = stats().predicted;
    ulms_engine_free(e);
    return predicted;
}

TEST(the_history_is_bounded_in_pages) {
    enum { KEPT = (1 << 22) / 1024 };
    CHECK_EQ(predicted_of(KEPT - 2), KEPT - 3);
    CHECK_EQ(predicted_of(KEPT), 0);
}

TEST(a_lower_budget_is_met) {
    open_engine(NULL, 6, 2, 1);
    run(1, "abcdef", ULMS_TOUCH_UPDATE);
    run(2, "cd", ULMS_TOUCH_UPDATE);
    ulms_engine_budget(e, 3 * PAGE);
    OUT("-ab");
    OUT("-ef");
    OUT("");
    CHECK_EQ(stats().resident_bytes, 2 * PAGE);
    CHECK_EQ(stats().budget_bytes, 3 * PAGE);
}

TEST(larger_than_the_budget_runs_short) {
    open_engine(NULL, 2, 8, 1);
    uint64_t x = issue(1, "abcd", ULMS_TOUCH_UPDATE);
    IN("+abD");
    CHECK_EQ(admit(x), ULMS_RUN_SHORT);
    CHECK_EQ(stats().faulted_bytes, 2 * PAGE);
    CHECK_EQ(stats().resident_bytes, 4 * PAGE);
    OUT("");
    ulms_engine_retired(e, x, 0);
    OUT("-abcd");
}

TEST(held_long_enough) {
    open_engine(NULL, 4, 1, 1);
    uint64_t x = issue(1, "ab", ULMS_TOUCH_UPDATE), wait;
    struct ulms_move m;
    CHECK_STR(next(ULMS_LANE_IN, &m), "+aD");
    CHECK_EQ(ulms_engine_admit(e, x, 1, &wait), ULMS_HOLD); /* a page of it is on the way */
    ulms_engine_moved(e, m.id, 1);
    CHECK_EQ(ulms_engine_admit(e, x, 1, &wait), ULMS_RUN_SHORT);
    CHECK_EQ(stats().short_operations, 1);
}

TEST(a_page_that_cannot_come_is_given_up) {
    open_engine(NULL, 4, 4, 1);
    uint64_t x = issue(1, "ac", ULMS_TOUCH_UPDATE);
    IN("+aD");
    for (int i = 0; i < 3; i++) {
        struct ulms_move m;
        CHECK_EQ(admit(x), ULMS_HOLD);
        CHECK_STR(next(ULMS_LANE_IN, &m), "+cD");
        ulms_engine_moved(e, m.id, 0);
        engine_check(e);
    }
    IN("");
    CHECK_EQ(admit(x), ULMS_RUN_SHORT);
}

TEST(freed_in_the_middle) {
    open_engine(NULL, 4, 4, 1);
    uint64_t x = issue(1, "ab", ULMS_TOUCH_UPDATE);
    struct ulms_move m;
    CHECK_STR(next(ULMS_LANE_IN, &m), "+abD");
    ulms_engine_freed(e, at('a'), PAGE);
    CHECK(ulms_engine_allocated(e, at('a'), PAGE));
    ulms_engine_moved(e, m.id, 1);
    CHECK_EQ(stats().resident_bytes, PAGE);
    CHECK_EQ(admit(x), ULMS_RUN); /* what it wanted is gone */
    ulms_engine_freed(e, at('b'), PAGE);
    ulms_engine_retired(e, x, 0);
    engine_check(e);
    CHECK_EQ(stats().resident_bytes, 0);
}

/* --- ordered policies --- */

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

/* A dead page costs the link nothing: it leaves though others are wanted later. */
TEST(dead_pages_leave_first) {
    open_engine(NULL, 3, 1, 1);
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    run_slow(2, "b", ULMS_TOUCH_UPDATE);
    run_slow(3, "c", ULMS_TOUCH_SCRATCH);
    issue(4, "d", ULMS_TOUCH_READ);
    OUT("-cD");
    OUT("");
}

/* Dead pages that operations still run on are as good as free: nobody moves bytes for what will be there soon. */
TEST(live_pages_stay_while_dead_ones_are_in_use) {
    open_engine(NULL, 2, 1, 1);
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    uint64_t running = issue(2, "b", ULMS_TOUCH_SCRATCH);
    IN("+bD");
    CHECK_EQ(admit(running), ULMS_RUN);
    uint64_t waiting = issue(3, "c", ULMS_TOUCH_READ);
    OUT("");
    ulms_engine_retired(e, running, 0);
    OUT("-bD");
    IN("+cD");
    CHECK_EQ(admit(waiting), ULMS_RUN);
}

/* Unless others go on meanwhile, who could use them for ever. */
TEST(an_overtaken_operation_waits_for_nobody) {
    open_engine(NULL, 2, 1, 1);
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    uint64_t running = issue(2, "b", ULMS_TOUCH_SCRATCH);
    IN("+bD");
    CHECK_EQ(admit(running), ULMS_RUN);
    uint64_t waiting = issue(3, "c", ULMS_TOUCH_READ);
    CHECK_EQ(admit(issue(4, "b", ULMS_TOUCH_SCRATCH)), ULMS_RUN);
    OUT("-a");
    IN("+cD");
    CHECK_EQ(admit(waiting), ULMS_RUN);
}

/* Nor for what never ends: a dead page that failed to leave. */
TEST(a_dead_page_that_cannot_leave_is_not_counted_on) {
    open_engine(NULL, 2, 1, 1);
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    run_slow(2, "b", ULMS_TOUCH_SCRATCH);
    uint64_t waiting = issue(3, "c", ULMS_TOUCH_READ);
    for (int i = 0; i < FAILURES_MAX; i++) {
        struct ulms_move m;
        CHECK_STR(next(ULMS_LANE_OUT, &m), "-bD");
        ulms_engine_moved(e, m.id, 0);
    }
    OUT("-a");
    IN("+cD");
    CHECK_EQ(admit(waiting), ULMS_RUN);
}

static void give(char page, int live) {
    ulms_engine_block(e, at(page), PAGE, live);
}

/* Pages a, b and c are there all the time; t and u live from their first touch to the end of the round. */
static void round_of_five_pages(void) {
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    run_slow(2, "b", ULMS_TOUCH_UPDATE);
    for (int i = 0; i < 40; i++)
        run_slow(3, "c", ULMS_TOUCH_UPDATE);
    give('t', 1);
    run_slow(4, "t", ULMS_TOUCH_WRITE);
    give('u', 1);
    run_slow(5, "u", ULMS_TOUCH_WRITE);
    run_slow(6, "tu", ULMS_TOUCH_READ);
    give('t', 0);
    give('u', 0);
}

/* It is known that five pages will be live at once: the farthest leaves long before. Dead pages get their places only
 * when operations that need them are near. */
TEST(room_is_made_early_and_places_late) {
    open_engine(NULL, LETTERS, 1, 1);
    for (int i = 0; i < 4; i++)
        round_of_five_pages();
    ulms_engine_budget(e, 4 * PAGE);
    OUT("-uD");
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    OUT("-aE");
    OUT("");
    run_slow(2, "b", ULMS_TOUCH_UPDATE);
    IN("");
    for (int i = 0; i < 9; i++)
        run_slow(3, "c", ULMS_TOUCH_UPDATE);
    IN("");
    run_slow(3, "c", ULMS_TOUCH_UPDATE);
    IN("+uDE");
    IN("");
}
