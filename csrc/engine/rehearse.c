#include "engine/rehearse.h"

#include <math.h>
#include <string.h>

#include "engine/greedy.h"
#include "engine/plan_run.h"

/* --- virtual time --- */

struct lane {
    uint32_t page; /* PAGE_NONE: idle */
    double left;   /* share of the page that is still to be moved */
};

struct stage {
    const struct period *period;
    const struct link *link;
    struct mover mover;
    struct lane in, out;
    double now, ends; /* ns; ends: when the operation that runs does */
    bool runs;
    uint64_t operation, end;
    double pages_in, pages_out;
};

/* Moves without bytes take no time. */
static bool set_off(struct stage *s, struct lane *lane, double *pages, struct mover_step (*next)(void *, bool),
                    void (*done)(void *, uint32_t)) {
    bool any = false;
    for (;;) {
        struct mover_step step = next(s->mover.self, lane->page == PAGE_NONE);
        if (step.page == PAGE_NONE)
            return any;
        any = true;
        if (step.bytes) {
            *lane = (struct lane){step.page, 1};
            *pages += 1;
        } else
            done(s->mover.self, step.page);
    }
}

static void set_off_all(struct stage *s) {
    for (bool any = true; any;) {
        any = set_off(s, &s->out, &s->pages_out, s->mover.out, s->mover.left);
        any |= set_off(s, &s->in, &s->pages_in, s->mover.in, s->mover.came);
        if (!s->runs && s->mover.start(s->mover.self)) {
            s->ends = s->now + (double)s->period->duration_ns[s->operation % s->period->operations];
            s->runs = any = true;
        }
    }
}

static double least(double a, double b) {
    return a < b ? a : b;
}

/* To the next event, the first of equals in the order operation, in, out. False: there is none. */
static bool advance(struct stage *s) {
    bool in = s->in.page != PAGE_NONE, out = s->out.page != PAGE_NONE;
    double in_ns = out ? s->link->in_both_ns : s->link->in_ns, out_ns = in ? s->link->out_both_ns : s->link->out_ns;
    double operation = s->runs ? s->ends - s->now : INFINITY;
    double fill = in ? s->in.left * in_ns : INFINITY, evict = out ? s->out.left * out_ns : INFINITY;
    double step = least(operation, least(fill, evict));
    if (step == INFINITY)
        return false;
    s->now += step;
    s->in.left -= step / in_ns;
    s->out.left -= step / out_ns;
    if (operation == step) {
        s->runs = false;
        s->operation++;
        s->mover.retired(s->mover.self);
    } else if (fill == step) {
        uint32_t page = s->in.page;
        s->in.page = PAGE_NONE;
        s->mover.came(s->mover.self, page);
    } else {
        uint32_t page = s->out.page;
        s->out.page = PAGE_NONE;
        s->mover.left(s->mover.self, page);
    }
    return true;
}

/* From the end of an iteration to the end of a later one: measured from a start, fills across the border are lost. */
static void rehearse(const struct period *period, const struct link *link, struct mover mover, struct rehearsal *out) {
    struct stage s = {.period = period, .link = link, .mover = mover, .in = {PAGE_NONE, 0}, .out = {PAGE_NONE, 0}};
    struct stage mark = s;
    uint64_t warm = (uint64_t)REHEARSE_WARM * period->operations;
    uint64_t end = (uint64_t)REHEARSE_ITERATIONS * period->operations;
    double measured = REHEARSE_ITERATIONS - REHEARSE_WARM;
    *out = (struct rehearsal){.ns = INFINITY};
    while (s.operation < end) {
        set_off_all(&s);
        if (!advance(&s))
            return;
        if (s.operation == warm && mark.operation < warm)
            mark = s;
    }
    out->ns = (s.now - mark.now) / measured;
    out->pages_in = (s.pages_in - mark.pages_in) / measured;
    out->pages_out = (s.pages_out - mark.pages_out) / measured;
}

/* --- the two --- */

static bool run_start(void *self) {
    struct plan_run *r = self;
    if (!plan_run_ready(r, r->operation))
        return false;
    plan_run_admitted(r, r->operation);
    return true;
}

/* Deaths are seen before the operation retires: the host has gone on. */
static void run_retired(void *self) {
    struct plan_run *r = self;
    const struct period *p = r->plan->period;
    uint32_t k = (uint32_t)(r->operation % p->operations);
    for (uint32_t i = p->first[k]; i < p->first[k + 1]; i++)
        if (p->does[i] & PERIOD_DIES)
            plan_run_died(r, p->page[i]);
    plan_run_retired(r);
}

static struct mover_step run_out(void *self, bool bytes) {
    return plan_run_out(self, bytes);
}

static struct mover_step run_in(void *self, bool bytes) {
    return plan_run_in(self, bytes);
}

static void run_left(void *self, uint32_t page) {
    plan_run_left(self, page);
}

static void run_came(void *self, uint32_t page) {
    plan_run_came(self, page);
}

bool rehearse_plan(const struct plan *plan, const struct link *link, struct rehearsal *out) {
    struct plan_run r;
    bool good = plan_run_open(&r, plan, 0, NULL);
    if (good)
        rehearse(plan->period, link, (struct mover){&r, run_start, run_retired, run_out, run_in, run_left, run_came},
                 out);
    plan_run_close(&r);
    return good;
}

bool rehearse_greedy(const struct period *period, uint32_t budget, const struct link *link, struct rehearsal *out) {
    struct greedy g;
    bool good = greedy_open(&g, period, budget);
    if (good)
        rehearse(period, link, greedy_mover(&g), out);
    greedy_close(&g);
    return good;
}

/* --- the search --- */

enum { STARTS = 4, WORK = 1 << 23 /* touches rehearsed, of plans after the first */ };

/* Where least and most is held when nothing is away, and two fixed places. */
static void find_starts(const struct plan *plan, uint32_t starts[STARTS]) {
    uint32_t n = plan->period->operations, least = 0, most = 0;
    for (uint32_t k = 1; k < n; k++) {
        if (plan->base[k] < plan->base[least])
            least = k;
        if (plan->base[k] > plan->base[most])
            most = k;
    }
    starts[0] = least;
    starts[1] = (most + 1) % n;
    starts[2] = 0;
    starts[3] = n / 2;
}

/* FNV-1a: equal plans are rehearsed once. */
static uint64_t digest(const struct plan *plan) {
    uint64_t sum = 0xcbf29ce484222325;
    for (uint32_t i = 0; i < plan->period->touches; i++)
        sum = (sum ^ plan->away[i]) * 0x100000001b3;
    return sum;
}

static void exchange(struct plan *a, struct plan *b) {
    struct plan was = *a;
    *a = *b;
    *b = was;
}

static enum plan_result search(struct plan *plan, struct plan *other, const struct link *link,
                               struct plan_choice *choice) {
    const struct period *p = plan->period;
    uint32_t starts[STARTS], most = WORK / ((uint64_t)p->touches * REHEARSE_ITERATIONS);
    uint64_t seen[STARTS];
    plan_keep_all(other);
    find_starts(other, starts);
    for (uint32_t i = 0; i < STARTS && (!choice->tried || choice->tried < most); i++) {
        enum plan_result result = plan_choose(other, starts[i]);
        if (result != PLAN_MADE)
            return result;
        bool known = false;
        seen[choice->tried] = digest(other);
        for (uint32_t j = 0; j < choice->tried; j++)
            known |= seen[j] == seen[choice->tried];
        if (known)
            continue;
        choice->tried++;
        struct rehearsal one;
        if (!rehearse_plan(other, link, &one))
            return PLAN_NO_MEMORY;
        if (choice->tried > 1 && one.ns >= choice->plan.ns)
            continue;
        choice->plan = one;
        choice->start = starts[i];
        exchange(plan, other);
    }
    return PLAN_MADE;
}

enum plan_result plan_search(struct plan *plan, const struct link *link, struct plan_choice *choice) {
    struct plan other;
    enum plan_result result = PLAN_NO_MEMORY;
    *choice = (struct plan_choice){.plan.ns = INFINITY, .greedy.ns = INFINITY};
    if (plan_open(&other, plan->period, plan->budget))
        result = search(plan, &other, link, choice);
    plan_close(&other);
    if (result == PLAN_MADE && !rehearse_greedy(plan->period, plan->budget, link, &choice->greedy))
        result = PLAN_NO_MEMORY;
    choice->worthwhile = result == PLAN_MADE && choice->plan.ns < choice->greedy.ns;
    return result;
}
