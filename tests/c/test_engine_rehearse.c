/* Plans and greedy choice in virtual time. */
#include "engine/rehearse.h"

#include "periods.h"

#include <math.h>

static struct plan_choice searched(struct plan *plan, struct link link, enum plan_result result) {
    struct plan_choice choice;
    CHECK_EQ(plan_search(plan, &link, &choice), result);
    return choice;
}

TEST(what_fits_takes_what_its_operations_take) {
    struct plan plan;
    struct period *p = sealed("a!|b|c~");
    for (uint32_t k = 0; k < 3; k++)
        p->duration_ns[k] = 10 + k;
    CHECK(plan_open(&plan, p, 3));
    struct plan_choice choice = searched(&plan, (struct link){100, 100, 100, 100}, PLAN_MADE);
    CHECK(choice.plan.ns == 33 && choice.greedy.ns == 33);
    CHECK(choice.plan.pages_in == 0 && choice.plan.pages_out == 0);
    CHECK_EQ(choice.tried, 1);
    CHECK(!choice.worthwhile);
    close_plan(&plan);
}

/* Two pages share a frame by plan, so that a fill hides behind one operation of three; greedy choice fills three pages,
 * each behind an operation. */
TEST(a_plan_is_used_where_it_wins) {
    struct plan plan;
    struct link link = {100, 100, 100, 100};
    struct period *p = sealed("a|b|c");
    CHECK(plan_open(&plan, p, 2));
    struct plan_choice choice = searched(&plan, link, PLAN_MADE);
    CHECK(choice.plan.pages_in == 2 && choice.plan.ns == 200);
    CHECK(choice.greedy.pages_in == 3 && choice.greedy.ns == 300);
    CHECK(choice.worthwhile);
    for (uint32_t k = 0; k < 3; k++)
        p->duration_ns[k] = 100;
    choice = searched(&plan, link, PLAN_MADE);
    CHECK(choice.plan.pages_in == 2 && choice.plan.ns == 400);
    CHECK(choice.greedy.pages_in == 3 && choice.greedy.ns == 300);
    CHECK(!choice.worthwhile);
    close_plan(&plan);
}

/* Everything written goes out and comes in, the one while the other does. */
TEST(lanes_that_share_the_link_slow_each_other_down) {
    struct plan plan;
    struct rehearsal duplex, shared;
    CHECK(plan_open(&plan, sealed("a!|b!|c!|d!"), 2));
    memset(plan.away, 1, 4);
    for (uint32_t k = 0; k < 4; k++)
        plan.base[k] = 1;
    CHECK(rehearse_plan(&plan, &(struct link){100, 100, 100, 100}, &duplex));
    CHECK(rehearse_plan(&plan, &(struct link){100, 100, 200, 200}, &shared));
    CHECK(duplex.pages_in == 4 && duplex.pages_out == 4 && duplex.ns == 400);
    CHECK(shared.pages_in == 4 && shared.pages_out == 4 && shared.ns == 800);
    close_plan(&plan);
}

TEST(random_plans_are_used_where_they_win) {
    unsigned worthwhile = 0, not_so = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 2; seed++) {
        state = seed * 0x9e3779b97f4a7c15ull;
        uint32_t largest;
        struct period *p = random_period(&largest);
        struct plan plan;
        double native = 0;
        for (uint32_t k = 0; k < p->operations; k++)
            native += (double)p->duration_ns[k];
        CHECK(plan_open(&plan, p, largest + below(p->pages - largest + 1)));
        struct link link = below(2) ? (struct link){100, 100, 100, 100} : (struct link){80, 150, 170, 170};
        struct plan_choice choice = searched(&plan, link, PLAN_MADE);
        check_plan(&plan);
        CHECK(isfinite(choice.plan.ns) && isfinite(choice.greedy.ns));
        CHECK(choice.plan.ns >= native * (1 - 1e-9) && choice.greedy.ns >= native * (1 - 1e-9));
        CHECK(choice.plan.ns >= choice.plan.pages_in * link.in_ns * (1 - 1e-9));
        CHECK_EQ(choice.worthwhile, choice.plan.ns < choice.greedy.ns);
        struct rehearsal again;
        CHECK(rehearse_plan(&plan, &link, &again));
        CHECK(again.ns == choice.plan.ns);
        *(choice.worthwhile ? &worthwhile : &not_so) += 1;
        plan_close(&plan);
        period_free(p);
    }
    CHECK(worthwhile > SEEDS / 50 && not_so > SEEDS / 50);
}

/* A long period: seconds of work at most, whatever it looks like. */
TEST(a_long_period_is_planned_in_bounded_work) {
    enum { OPERATIONS = 100 * 1000, EACH = 4, PAGES = 5000, BUDGET = 2000 };
    struct period *p = period_new(OPERATIONS, OPERATIONS * EACH, PAGES);
    CHECK(p);
    state = 1;
    for (uint32_t k = 0; k < OPERATIONS; k++) {
        uint32_t from = below(4) ? (k / 20) % PAGES : below(PAGES);
        p->first[k + 1] = (k + 1) * EACH;
        p->duration_ns[k] = 100;
        for (uint32_t i = 0; i < EACH; i++) {
            p->page[k * EACH + i] = (from + i * 7) % PAGES;
            p->does[k * EACH + i] = below(3) ? 0 : PERIOD_WRITES;
        }
    }
    CHECK(period_seal(p));
    struct plan plan;
    CHECK(plan_open(&plan, p, BUDGET));
    double begun = test_seconds();
    struct plan_choice choice = searched(&plan, (struct link){100, 100, 100, 100}, PLAN_MADE);
    CHECK(test_seconds() - begun < TEST_SECONDS / 2);
    CHECK(isfinite(choice.plan.ns));
    CHECK(choice.tried >= 1);
    close_plan(&plan);
}
