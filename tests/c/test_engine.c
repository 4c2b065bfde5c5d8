/* What the engine decides: who may run, who comes, who leaves. */
#include "engine_letters.h"

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
    CHECK_EQ(ulms_engine_missing(e, x), 3 * PAGE);
    CHECK_EQ(ulms_engine_missing(e, x + 1), 0);
    struct ulms_move m;
    CHECK_STR(next(ULMS_LANE_IN, &m), "+abcD");
    CHECK_EQ(admit(x), ULMS_HOLD);
    CHECK_EQ(ulms_engine_missing(e, x), 3 * PAGE);
    ulms_engine_moved(e, m.id, 1);
    CHECK_EQ(ulms_engine_missing(e, x), 0);
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
    IN("+b"); /* will be overwritten, but who is admitted before may read it */
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
    CHECK_EQ(stats().dead_bytes, 4 * PAGE);
    ulms_engine_block(e, at('b') + 64, 8, 0);
    issue(7, "a", ULMS_TOUCH_READ);
    OUT("-bD"); /* nobody holds a block of it */
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

TEST(with_a_budget_of_nothing_none_waits_for_another) {
    struct ulms_engine_settings s = {.page_bytes = PAGE};
    CHECK((e = ulms_engine_new(&s)) != NULL);
    CHECK(ulms_engine_allocated(e, BASE, 4 * PAGE));
    uint64_t x = issue(1, "ab", ULMS_TOUCH_UPDATE), y = issue(2, "bc", ULMS_TOUCH_READ);
    CHECK_EQ(admit(y), ULMS_HOLD); /* x comes first */
    CHECK_EQ(admit(x), ULMS_RUN_SHORT);
    CHECK_EQ(admit(y), ULMS_RUN_SHORT);
    IN("");
    ulms_engine_budget(e, PAGE);
    x = issue(3, "d", ULMS_TOUCH_READ);
    CHECK_EQ(admit(x), ULMS_HOLD);
    IN("+dD");
    y = issue(4, "c", ULMS_TOUCH_READ);
    CHECK_EQ(admit(x), ULMS_RUN);
    CHECK_EQ(admit(y), ULMS_HOLD); /* x ends, and d may leave */
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

/* Nobody touches 't' for longer than the others, but to keep it costs a frame until it dies, and no byte. */
TEST(what_dies_before_its_next_touch_waits_for_its_death) {
    open_engine(NULL, 4, 1, 1);
    uint64_t evicted = 0;
    for (int round = 0; round < 20; round++) {
        if (round == 10)
            evicted = stats().evicted_bytes;
        ulms_engine_block(e, at('t'), PAGE, 1);
        run_slow(1, "t", ULMS_TOUCH_UPDATE);
        run_slow(2, "t", ULMS_TOUCH_READ);
        for (const char *c = "abcddcba"; *c; c++) {
            run_slow(3, (char[]){*c, 0}, ULMS_TOUCH_READ);
            if (*c == 'd')
                ulms_engine_block(e, at('t'), PAGE, 0);
        }
    }
    CHECK(evicted > 0);
    CHECK_EQ(stats().evicted_bytes, evicted);
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

/* Two letters: the first has a claim on the frame of the second. */
static const char *claim;

static uint64_t holder(void *data, uint64_t start) {
    CHECK(data == &claim);
    return claim && start == at(claim[0]) ? at(claim[1]) : 0;
}

static void open_engine_with_claims(uint64_t budget) {
    open_engine(NULL, budget, 8, 1);
    ulms_engine_holder(e, holder, &claim);
}

TEST(a_dead_page_leaves_for_whose_frame_it_has) {
    const char *claims[] = {NULL, "db", "dc", "eb", "dz"}, *leave[] = {"-abcD", "-bD", "-cD", "-abcD", "-abcD"};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        open_engine_with_claims(3);
        run_slow(1, "a", ULMS_TOUCH_SCRATCH);
        run_slow(2, "b", ULMS_TOUCH_SCRATCH);
        run_slow(3, "c", ULMS_TOUCH_SCRATCH);
        issue(4, "d", ULMS_TOUCH_READ);
        claim = claims[i];
        OUT(leave[i]);
        ulms_engine_free(e);
    }
}

/* In rounds a and b are touched once, before there are too many pages. */
static void begin_round(void) {
    run_slow(1, "a", ULMS_TOUCH_UPDATE);
    run_slow(2, "b", ULMS_TOUCH_UPDATE);
}

static void end_round(void) {
    run_slow(3, "c", ULMS_TOUCH_UPDATE);
    give('t', 1);
    run_slow(4, "t", ULMS_TOUCH_WRITE);
    give('x', 1);
    run_slow(5, "x", ULMS_TOUCH_WRITE);
    run_slow(6, "tx", ULMS_TOUCH_READ);
    give('t', 0);
    give('x', 0);
}

/* If it would have to leave as well: it is touched only after there were most. */
TEST(so_does_a_live_page_that_has_to_leave_anyway) {
    const char *claims[] = {NULL, "xa", "xc"}, *leave[] = {"-bE", "-aE", "-bE"};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        open_engine_with_claims(LETTERS);
        for (int round = 0; round < 4; round++) {
            begin_round();
            end_round();
        }
        claim = NULL;
        ulms_engine_budget(e, 4 * PAGE);
        OUT("-xD");
        begin_round();
        claim = claims[i];
        OUT(leave[i]);
        ulms_engine_free(e);
    }
}
