/* Periods for tests: written by hand, and random ones. For the files of tests that include it, after test.h. */
#ifndef TESTS_PERIODS_H
#define TESTS_PERIODS_H

#include "engine/plan.h"

#include "test.h"

/* "ab!|c~": operation 0 touches pages a and b and writes b; operation 1 touches c, which then dies. */
static inline struct period *period_of(const char *text) {
    uint32_t operations = 1, touches = 0, pages = 0;
    for (const char *c = text; *c; c++) {
        operations += *c == '|';
        if (*c < 'a' || *c > 'z')
            continue;
        touches++;
        pages = (uint32_t)(*c - 'a') >= pages ? (uint32_t)(*c - 'a') + 1 : pages;
    }
    struct period *p = period_new(operations, touches, pages);
    CHECK(p);
    uint32_t k = 0, i = 0;
    for (const char *c = text; *c; c++)
        if (*c == '|')
            p->first[++k] = i;
        else if (*c == '!')
            p->does[i - 1] |= PERIOD_WRITES;
        else if (*c == '~')
            p->does[i - 1] |= PERIOD_DIES;
        else
            p->page[i++] = (uint32_t)(*c - 'a');
    p->first[operations] = touches;
    return p;
}

static inline struct period *sealed(const char *text) {
    struct period *p = period_of(text);
    CHECK(period_seal(p));
    return p;
}

static inline struct plan *chosen(const char *text, uint32_t budget, uint32_t start) {
    static struct plan plan;
    CHECK(plan_open(&plan, sealed(text), budget));
    CHECK_EQ(plan_choose(&plan, start), PLAN_MADE);
    return &plan;
}

static inline void close_plan(struct plan *plan) {
    period_free((struct period *)plan->period);
    plan_close(plan);
}

/* One digit a touch, or an operation. */
#define CHECK_AWAY(plan, text)                                                                                         \
    for (uint32_t i_ = 0; i_ < (plan)->period->touches; i_++)                                                          \
    CHECK_EQ((plan)->away[i_], (text)[i_] - '0')

#define CHECK_BASE(plan, text)                                                                                         \
    for (uint32_t k_ = 0; k_ < (plan)->period->operations; k_++)                                                       \
    CHECK_EQ((plan)->base[k_], (text)[k_] - '0')

static uint64_t state;

static inline uint32_t below(uint32_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) % n);
}

/* Sorts of operations that touch few or many of up to 40 pages; each page has its chances to be written and to die. */
static inline struct period *random_period(uint32_t *largest) {
    uint32_t operations = 1 + below(40), pages = 1 + below(40), many = 1 + below(pages), touches = 0;
    static uint32_t page[64 * 64];
    static uint32_t first[64];
    bool seen[64] = {false};
    *largest = 0;
    for (uint32_t k = 0; k < operations; k++) {
        uint32_t of = below(3) ? below(1 + many / 4) : below(many + 1);
        first[k] = touches;
        for (uint32_t p = 0; p < pages; p++)
            if (below(pages) < of || (k == operations - 1 && !seen[p])) {
                seen[p] = true;
                page[touches++] = p;
            }
        *largest = touches - first[k] > *largest ? touches - first[k] : *largest;
    }
    struct period *p = period_new(operations, touches, pages);
    CHECK(p);
    uint32_t writes = below(4), dies = below(4);
    for (uint32_t k = 0; k < operations; k++) {
        p->first[k] = first[k];
        p->duration_ns[k] = 1 + below(below(2) ? 10 : 1000);
    }
    p->first[operations] = touches;
    for (uint32_t i = 0; i < touches; i++) {
        p->page[i] = page[i];
        p->does[i] = (below(4) < writes ? PERIOD_WRITES : 0) | (below(6) < dies ? PERIOD_DIES : 0);
    }
    CHECK(period_seal(p));
    return p;
}

static inline void check_plan(const struct plan *plan) {
    const struct period *p = plan->period;
    uint32_t *held = calloc(p->operations, sizeof *held);
    for (uint32_t i = 0; i < p->touches; i++) {
        CHECK(!(plan->away[i] && (p->does[i] & PERIOD_DIES || period_gap(p, i) == 1)));
        uint32_t end = p->operation[i] + (plan_leaves(plan, i) ? 1 : period_gap(p, i));
        for (uint32_t k = p->operation[i]; k < end; k++)
            held[k % p->operations]++;
    }
    for (uint32_t k = 0; k < p->operations; k++) {
        CHECK_EQ(held[k], plan->base[k]);
        CHECK(held[k] <= plan->budget);
    }
    free(held);
}

#ifdef __SANITIZE_THREAD__
enum { SEEDS = 100 };
#else
enum { SEEDS = 600 };
#endif

#endif
