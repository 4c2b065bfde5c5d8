/* Periods, and the choice of gaps, by hand. */
#include "engine/rehearse.h"

#include "periods.h"

/* --- the period --- */

TEST(touches_are_linked_round_the_period) {
    struct period *p = sealed("ab|b|a");
    CHECK_EQ(p->next[0], 3);
    CHECK_EQ(p->next[3], 0);
    CHECK_EQ(p->next[1], 2);
    CHECK_EQ(p->previous[1], 2);
    CHECK_EQ(period_gap(p, 0), 2);
    CHECK_EQ(period_gap(p, 3), 1);
    CHECK_EQ(period_gap(p, 1), 1);
    CHECK_EQ(period_gap(p, 2), 2);
    period_free(p);
    p = sealed("a||");
    CHECK_EQ(p->next[0], 0);
    CHECK_EQ(period_gap(p, 0), 3);
    period_free(p);
}

TEST(what_is_no_period_is_refused) {
    static const char *const wrong[] = {"aba", "a|c|a"}; /* twice in an operation; b is never touched */
    for (size_t i = 0; i < 2; i++) {
        struct period *p = period_of(wrong[i]);
        CHECK(!period_seal(p));
        period_free(p);
    }
    struct period *p = period_of("a|b");
    p->page[1] = 2;
    CHECK(!period_seal(p));
    p->page[1] = 1;
    p->first[1] = 3;
    CHECK(!period_seal(p));
    p->first[1] = 1;
    p->first[2] = 1;
    CHECK(!period_seal(p));
    period_free(p);
    CHECK(!period_new(0, 1, 1) && !period_new(1, 0, 1) && !period_new(1, 1, 2) && !period_new(1, 1, 0));
    CHECK(!period_new(PLAN_OPERATIONS_MAX + 1, 1, 1) && !period_new(1, PLAN_TOUCHES_MAX + 1, 1));
}

/* --- the choice --- */

TEST(what_fits_stays) {
    struct plan *plan = chosen("a|b|c~", 3, 0);
    CHECK_AWAY(plan, "000");
    CHECK_BASE(plan, "223");
    close_plan(plan);
}

TEST(the_farthest_next_touch_goes_away) {
    struct plan *plan = chosen("a|b|c", 2, 0);
    CHECK_AWAY(plan, "011"); /* at the border c, wanted last; at c, b */
    CHECK_BASE(plan, "122");
    close_plan(plan);
    plan = chosen("a|b|c", 2, 1);
    CHECK_AWAY(plan, "101"); /* the same, from b on */
    CHECK_BASE(plan, "212");
    close_plan(plan);
}

TEST(of_equals_the_first_pages_go) {
    struct plan *plan = chosen("abcd|e|e", 4, 0);
    CHECK_AWAY(plan, "100001");
    CHECK_BASE(plan, "444");
    close_plan(plan);
}

TEST(a_gap_that_is_not_needed_is_taken_back) {
    struct plan *plan = chosen("ab|cd|ae|bcde", 4, 0);
    for (uint32_t k = 0; k < plan->period->operations; k++)
        CHECK(plan->base[k] <= 4);
    for (uint32_t i = 0; i < plan->period->touches; i++) {
        if (!plan->away[i])
            continue;
        bool full = false;
        uint32_t from = plan->period->operation[i];
        for (uint32_t k = from + 1; k < from + period_gap(plan->period, i); k++)
            full |= plan->base[k % plan->period->operations] == 4;
        CHECK(full);
    }
    close_plan(plan);
}

TEST(an_operation_that_alone_is_too_large_has_no_plan) {
    struct plan plan;
    struct plan_choice choice;
    struct link link = {1, 1, 1, 1};
    CHECK(plan_open(&plan, sealed("a|bcd"), 2));
    CHECK_EQ(plan_choose(&plan, 0), PLAN_TOO_SMALL);
    CHECK_EQ(plan_search(&plan, &link, &choice), PLAN_TOO_SMALL);
    CHECK(!choice.worthwhile);
    close_plan(&plan);
}
