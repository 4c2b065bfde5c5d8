/* What an engine that has learnt a sequence brings and lets go. */
#include "engine_letters.h"

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

/* The same, of one key, beside a page that all touch. */
TEST(what_is_not_touched_all_the_time_tells_the_place) {
    const char *pages[] = {"ac", "ae", "ag", "ai", "ak", "am", "ao", "aq"};
    open_engine(NULL, 6, 1, 1);
    for (int i = 0; i < 80; i++)
        run_slow(1, pages[i % 8], ULMS_TOUCH_READ);
    uint64_t before = stats().filled_bytes;
    for (int i = 0; i < 70; i++)
        run_slow(1, pages[i % 8], ULMS_TOUCH_READ);
    CHECK((stats().filled_bytes - before) / PAGE <= 45);
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

/* The most pages that came at once in the last of many rounds over six pairs of pages, of which eight pages fit. */
static uint64_t longest_fill(uint64_t mode) {
    const char *pages[] = {"ab", "cd", "ef", "gh", "ij", "kl"};
    uint64_t longest = 0;
    open_engine(NULL, 8, 2, 4);
    for (int i = 0; i < 120; i++) {
        uint64_t serial = issue(1 + i % 6, pages[i % 6], mode);
        struct ulms_move m;
        for (bool any = true; any;) {
            any = false;
            for (int lane = 0; lane < 2; lane++)
                if (ulms_engine_next(e, lane, &m)) {
                    longest = i >= 114 && m.kind == ULMS_FILL && m.bytes > longest ? m.bytes : longest;
                    ulms_engine_moved(e, m.id, 1);
                    any = true;
                }
        }
        CHECK_EQ(admit(serial), ULMS_RUN);
        ulms_engine_retired(e, serial, ++now);
    }
    CHECK_EQ(stats().surprises, 0);
    ulms_engine_free(e);
    return longest / PAGE;
}

/* Where nothing leaves with its bytes, half as much is under way. */
TEST(runs_are_shorter_while_it_is_quiet) {
    CHECK_EQ(longest_fill(ULMS_TOUCH_UPDATE), 2);
    CHECK_EQ(longest_fill(ULMS_TOUCH_READ), 1);
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

/* Weights begin on the page where their neighbours end, and each layer has the same, larger activation: the weights
 * tell, also after something was in between. */
TEST(layers_are_told_apart_by_what_only_they_touch) {
    enum { LAYERS = 20, OPS = 5, LEARN = 6, ROUNDS = 30 };
    open_engine(NULL, 14, 1, 2);
    uint64_t late = 0;
    for (int i = 0; i < ROUNDS; i++)
        for (int layer = 0; layer < LAYERS; layer++) {
            char weights[] = {(char)('a' + layer), (char)('b' + layer), 'x', 'y', 'z', 0};
            late = i == LEARN && layer == 0 ? stats().late_operations : late;
            run(1, weights, ULMS_TOUCH_READ);
            for (uint64_t key = 2; key <= OPS; key++)
                run(key, "xyz", ULMS_TOUCH_UPDATE);
            if (layer == i * 7 % LAYERS)
                run(99, "z", ULMS_TOUCH_READ);
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
