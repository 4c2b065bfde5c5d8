/* Plans, and what carries them out: small ones by hand, and random ones under a model that loses nothing. */
#include "engine/plan_run.h"
#include "engine/rehearse.h"

#include "test.h"

#include <math.h>

/* "ab!|c~": operation 0 touches pages a and b and writes b; operation 1 touches c, which then dies. */
static struct period *period_of(const char *text) {
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

static struct period *sealed(const char *text) {
    struct period *p = period_of(text);
    CHECK(period_seal(p));
    return p;
}

static struct plan *chosen(const char *text, uint32_t budget, uint32_t start) {
    static struct plan plan;
    CHECK(plan_open(&plan, sealed(text), budget));
    CHECK_EQ(plan_choose(&plan, start), PLAN_MADE);
    return &plan;
}

static void close_plan(struct plan *plan) {
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

/* --- the run, step by step --- */

static void expect(struct mover_step step, uint32_t page, bool bytes) {
    CHECK_EQ(step.page, page);
    CHECK(page == PAGE_NONE || step.bytes == bytes);
}

static void come(struct plan_run *r, uint32_t page, bool bytes) {
    expect(plan_run_in(r, bytes), page, bytes);
    plan_run_came(r, page);
    CHECK(plan_run_check(r));
}

static void leave(struct plan_run *r, uint32_t page, bool bytes) {
    expect(plan_run_out(r, bytes), page, bytes);
    plan_run_left(r, page);
    CHECK(plan_run_check(r));
}

static void run(struct plan_run *r) {
    CHECK(plan_run_ready(r, r->operation));
    plan_run_admitted(r, r->operation);
    plan_run_retired(r);
    CHECK(plan_run_check(r));
}

TEST(fills_come_by_need_where_there_is_room) {
    struct plan *plan = chosen("a!|b|c", 2, 0);
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    CHECK(!plan_run_ready(&r, 0));
    expect(plan_run_in(&r, false), PAGE_NONE, false);
    come(&r, 0, true);
    come(&r, 1, true);                               /* room at operation 0, and then it is full */
    expect(plan_run_in(&r, true), PAGE_NONE, false); /* c */
    CHECK(plan_run_ready(&r, 1));
    CHECK(!plan_run_ready(&r, 2));
    run(&r);
    expect(plan_run_in(&r, true), PAGE_NONE, false); /* operation 1 has a and b */
    run(&r);
    expect(plan_run_in(&r, true), PAGE_NONE, false); /* may, but has no frame */
    leave(&r, 1, false);                             /* the host's copy of b is valid */
    come(&r, 2, true);
    run(&r);
    leave(&r, 2, false);
    come(&r, 1, true);
    CHECK(plan_run_ready(&r, 3)); /* a has stayed */
    expect(plan_run_out(&r, true), PAGE_NONE, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(dead_pages_get_their_place_ahead_where_there_is_room) {
    struct plan *plan = chosen("a|b!~|a", 2, 0);
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, true);
    come(&r, 1, false);
    CHECK(plan_run_ready(&r, 1));
    plan_run_close(&r);
    close_plan(plan);
    plan = chosen("ac|b!~|ac", 2, 0);
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, true);
    expect(plan_run_in(&r, false), PAGE_NONE, false); /* a frame is free, but the operation needs it for c */
    come(&r, 2, true);
    run(&r);
    leave(&r, 0, false);
    come(&r, 1, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(a_page_that_is_wanted_before_it_left_stays) {
    struct plan *plan = chosen("a!|b|c", 3, 0);
    memset(plan->away, 1, 3); /* more than must be */
    plan->base[0] = plan->base[1] = plan->base[2] = 1;
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, true);
    come(&r, 1, true);
    come(&r, 2, true);
    run(&r);
    expect(plan_run_in(&r, false), PAGE_NONE, false); /* a has room until operation 3, and is queued no longer */
    expect(plan_run_out(&r, true), PAGE_NONE, false);
    run(&r);
    leave(&r, 1, false);
    run(&r);
    CHECK(plan_run_ready(&r, 3));
    leave(&r, 2, false);
    expect(plan_run_out(&r, true), PAGE_NONE, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(nobody_leaves_without_bytes_while_frames_are_free) {
    struct plan *plan = chosen("a|b|c", 17, 0);
    memset(plan->away, 1, 3);
    plan->base[0] = plan->base[1] = plan->base[2] = 1;
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, true);
    run(&r);
    expect(plan_run_out(&r, true), PAGE_NONE, false); /* a, but 16 frames are free */
    come(&r, 1, true);
    plan_run_close(&r);
    plan->budget = 16;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, true);
    run(&r);
    leave(&r, 0, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(a_death_that_is_seen_spares_the_bytes) {
    struct plan *plan = chosen("a!~|b|b", 1, 0);
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, false); /* fresh */
    plan_run_admitted(&r, 0);
    plan_run_died(&r, 0);
    plan_run_retired(&r);
    leave(&r, 0, false);
    come(&r, 1, true);
    run(&r);
    run(&r);
    leave(&r, 1, false);
    come(&r, 0, false);
    run(&r); /* not told of the death: it goes to the host */
    expect(plan_run_out(&r, false), PAGE_NONE, false);
    leave(&r, 0, true);
    come(&r, 1, true);
    plan_run_died(&r, 0); /* late */
    run(&r);
    run(&r);
    leave(&r, 1, false);
    come(&r, 0, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(a_death_while_it_waits_or_leaves_spares_what_is_left_to_spare) {
    struct plan *plan = chosen("a!~|b|b", 1, 0);
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 0, NULL));
    come(&r, 0, false);
    run(&r);
    plan_run_died(&r, 0); /* queued to leave with bytes */
    leave(&r, 0, false);
    come(&r, 1, true);
    run(&r);
    run(&r);
    leave(&r, 1, false);
    come(&r, 0, false);
    run(&r);
    expect(plan_run_out(&r, true), 0, true);
    plan_run_died(&r, 0); /* on its way */
    plan_run_left(&r, 0);
    come(&r, 1, true);
    run(&r);
    run(&r);
    leave(&r, 1, false);
    come(&r, 0, false);
    plan_run_close(&r);
    close_plan(plan);
}

TEST(a_plan_is_entered_from_any_state) {
    struct plan *plan = chosen("a!|b|c", 2, 0);
    const uint8_t pages[3] = {PLAN_HOST, PLAN_RESIDENT | PLAN_HOST, PLAN_RESIDENT};
    struct plan_run r;
    CHECK(plan_run_open(&r, plan, 4, pages)); /* before b; the plan keeps a there, and not c */
    CHECK(plan_run_check(&r));
    CHECK(plan_run_ready(&r, 4));
    run(&r);
    CHECK(plan_run_ready(&r, 5)); /* c was still there */
    leave(&r, 1, false);
    come(&r, 0, true);
    run(&r);
    CHECK(plan_run_ready(&r, 6));
    plan_run_close(&r);
    close_plan(plan);
}

/* --- random ones --- */

static uint64_t state;

static uint32_t below(uint32_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) % n);
}

/* Sorts of operations that touch few or many of up to 40 pages; each page has its chances to be written and to die. */
static struct period *random_period(uint32_t *largest) {
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

/* What is really where: versions, 0 for content that nobody needs. */
struct model {
    struct plan_run run;
    const struct period *period;
    uint32_t meant[64], device[64], host[64]; /* by page */
    bool there[64];
    uint32_t in, out; /* under way; PAGE_NONE: idle */
    bool in_bytes, out_bytes;
    bool runs;
    uint32_t version;
    int64_t used;
};

/* What the operation sees must be what was written last. */
static bool start(struct model *m) {
    uint32_t k = (uint32_t)(m->run.operation % m->period->operations);
    if (m->runs || !plan_run_ready(&m->run, m->run.operation))
        return false;
    for (uint32_t i = m->period->first[k]; i < m->period->first[k + 1]; i++) {
        uint32_t page = m->period->page[i];
        CHECK(m->there[page]);
        CHECK(!m->meant[page] || m->device[page] == m->meant[page]);
        if (m->period->does[i] & PERIOD_WRITES || !m->meant[page])
            m->device[page] = m->meant[page] = ++m->version;
    }
    plan_run_admitted(&m->run, m->run.operation);
    return m->runs = true;
}

/* Half of the deaths are told of in time; the others never. */
static bool finish(struct model *m) {
    uint32_t k = (uint32_t)(m->run.operation % m->period->operations);
    if (!m->runs)
        return false;
    for (uint32_t i = m->period->first[k]; i < m->period->first[k + 1]; i++)
        if (m->period->does[i] & PERIOD_DIES && below(2)) {
            m->meant[m->period->page[i]] = 0;
            plan_run_died(&m->run, m->period->page[i]);
        }
    plan_run_retired(&m->run);
    m->runs = false;
    return true;
}

static bool begin_in(struct model *m) {
    if (m->in != PAGE_NONE)
        return false;
    struct mover_step step = plan_run_in(&m->run, below(4));
    m->in = step.page;
    m->in_bytes = step.bytes;
    if (step.page == PAGE_NONE)
        return false;
    CHECK(!m->there[step.page]);
    CHECK(++m->used <= m->run.plan->budget);
    return true;
}

static bool end_in(struct model *m) {
    if (m->in == PAGE_NONE)
        return false;
    m->there[m->in] = true;
    m->device[m->in] = m->in_bytes ? m->host[m->in] : 0;
    CHECK(!m->meant[m->in] || m->device[m->in] == m->meant[m->in]);
    plan_run_came(&m->run, m->in);
    m->in = PAGE_NONE;
    return true;
}

static bool begin_out(struct model *m) {
    if (m->out != PAGE_NONE)
        return false;
    struct mover_step step = plan_run_out(&m->run, below(4));
    m->out = step.page;
    m->out_bytes = step.bytes;
    if (step.page == PAGE_NONE)
        return false;
    CHECK(m->there[step.page]);
    m->there[step.page] = false;
    return true;
}

static bool end_out(struct model *m) {
    if (m->out == PAGE_NONE)
        return false;
    if (m->out_bytes)
        m->host[m->out] = m->device[m->out];
    CHECK(!m->meant[m->out] || m->host[m->out] == m->meant[m->out]);
    m->used--;
    plan_run_left(&m->run, m->out);
    m->out = PAGE_NONE;
    return true;
}

static void enter(struct model *m, const struct plan *plan) {
    const struct period *p = plan->period;
    uint8_t pages[64];
    *m = (struct model){.period = p, .in = PAGE_NONE, .out = PAGE_NONE};
    for (uint32_t page = 0; page < p->pages; page++) {
        bool resident = m->used < plan->budget && below(2), dead = !below(4), host = !resident || below(2);
        m->there[page] = resident;
        m->used += resident;
        m->meant[page] = dead ? 0 : ++m->version;
        m->device[page] = resident ? m->meant[page] : 0;
        m->host[page] = host ? m->meant[page] : 0;
        pages[page] = (resident ? PLAN_RESIDENT : 0) | (dead ? PLAN_DEAD : host ? PLAN_HOST : 0);
    }
    CHECK(plan_run_open(&m->run, plan, below(3 * p->operations), pages));
}

/* Events in any order: whatever takes how long, it never stops, and nothing is lost. */
static void live(struct model *m, unsigned periods) {
    static bool (*const events[])(struct model *) = {start, finish, begin_in, end_in, begin_out, end_out};
    enum { EVENTS = sizeof events / sizeof *events };
    uint64_t end = m->run.operation + (uint64_t)periods * m->period->operations;
    unsigned idle = 0;
    while (m->run.operation < end) {
        bool any = events[below(EVENTS)](m);
        idle = any ? 0 : idle + 1;
        CHECK(idle < 1000);
        CHECK(plan_run_check(&m->run));
    }
}

static void check_plan(const struct plan *plan) {
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

TEST(random_plans_are_carried_out_in_any_order_of_events) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        state = seed * 0x9e3779b97f4a7c15ull;
        uint32_t largest;
        struct period *p = random_period(&largest);
        struct plan plan;
        struct model m;
        CHECK(plan_open(&plan, p, largest + (below(4) ? below(p->pages - largest + 1) : 0)));
        CHECK_EQ(plan_choose(&plan, below(p->operations)), PLAN_MADE);
        check_plan(&plan);
        enter(&m, &plan);
        live(&m, 4);
        plan_run_close(&m.run);
        plan_close(&plan);
        period_free(p);
    }
}

/* --- in virtual time --- */

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
