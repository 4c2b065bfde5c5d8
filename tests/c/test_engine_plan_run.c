/* Plans carried out: step by step, and under a model that loses nothing. */
#include "engine/plan_run.h"

#include "periods.h"

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
