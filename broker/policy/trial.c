/* Co-run or turns, by what was measured. Operations retired for each ns charged are compared, as
 * these depend neither on shares nor on where in a turn a window begins; and how much of the time was charged. */
#include "broker/policy/state.h"

#define SETTLE_NS       MS(100) /* before a window */
#define WINDOW_NS       MS(200) /* for each tenant that is compared; two rounds of turns at least */
#define CROWD_WINDOW_NS MS(1000)
#define AGAIN_NS        MS(10000)
#define AGAIN_MOST_NS   MS(3600000)
enum {
    CORUN = 1,
    TURNS,
    DECIDED,
    RARER = 4,  /* so many times as long until the next time */
    ONE = 1024, /* turns are as fast */
    GAIN = 32,  /* so many parts of ONE are a difference */
    RATIO_MOST = 64 * ONE
};

static uint64_t awake(const struct policy *p) {
    uint64_t set = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (is_awake(p, t))
            set |= UINT64_C(1) << (t - p->tenants);
    return set;
}

static int size(uint64_t set) {
    return __builtin_popcountll(set);
}

static struct way now(const struct policy *p) {
    struct way way = {.wall_ns = p->now, .charged_ns = p->charged_ns};
    for (size_t i = 0; i < POLICY_TENANTS; i++)
        way.of[i] = (struct sample){p->tenants[i].told.operations, p->tenants[i].charged_told};
    return way;
}

static uint64_t minus(uint64_t a, uint64_t b) {
    return a - least(a, b);
}

static struct way since(const struct policy *p, const struct way *begin) {
    struct way way = now(p);
    way.wall_ns -= begin->wall_ns;
    way.charged_ns -= begin->charged_ns;
    for (size_t i = 0; i < POLICY_TENANTS; i++) {
        way.of[i].operations = minus(way.of[i].operations, begin->of[i].operations);
        way.of[i].charged_ns = minus(way.of[i].charged_ns, begin->of[i].charged_ns);
    }
    return way;
}

/* Who uses little at a time waits for less than others' slices in turns: then these need not be faster. */
static uint64_t bar(const struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (is_awake(p, t) && turn_is_interactive(p, t))
            return ONE - GAIN;
    return ONE + GAIN;
}

static bool turns_win(const struct policy *p) {
    const struct trial *r = &p->trial;
    uint64_t sum = 0, count = 0;
    for (size_t i = 0; i < POLICY_TENANTS; i++) {
        const struct sample *c = &r->corun.of[i], *t = &r->turns.of[i];
        if (!(r->set >> i & 1) || !c->operations || !c->charged_ns || !t->charged_ns)
            continue;
        uint64_t rate = scaled(t->operations, c->charged_ns, t->charged_ns);
        sum += least(scaled(rate, ONE, c->operations), RATIO_MOST);
        count++;
    }
    if (!count || !r->corun.charged_ns || !r->turns.wall_ns)
        return false;
    uint64_t score = scaled(sum / count, r->turns.charged_ns, r->turns.wall_ns);
    return scaled(score, r->corun.wall_ns, r->corun.charged_ns) > bar(p);
}

static void take_turns(struct policy *p, bool turns) {
    p->exclusive = turns && !p->crowded;
    p->trial.takes = turns && p->crowded;
    if (p->crowded)
        crowd_take(p, turns);
}

/* Of those who take turns, one turn each. */
static uint64_t round_ns(const struct policy *p) {
    uint64_t sum = 0;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        sum += is_awake(p, t) && turn_takes(p, t) ? turn_length(p, t) : 0;
    return sum;
}

static void try_way(struct policy *p, int step) {
    take_turns(p, step == TURNS);
    p->trial.step = step;
    p->trial.timed = false;
    p->trial.at = p->now + most(SETTLE_NS, round_ns(p));
}

static uint64_t window_ns(const struct policy *p) {
    uint64_t each = p->crowded ? CROWD_WINDOW_NS : WINDOW_NS;
    return most((uint64_t)size(p->trial.set) * each, 2 * round_ns(p));
}

static void decide(struct policy *p) {
    struct trial *r = &p->trial;
    take_turns(p, turns_win(p));
    p->state.trials++;
    r->step = DECIDED;
    r->at = p->now + r->again;
    r->again = least(r->again * RARER, AGAIN_MOST_NS);
}

/* Turns that refills have made begin are not doubted. */
static uint64_t compared(const struct policy *p) {
    uint64_t set = !in_turns(p) || p->trial.takes ? awake(p) : 0;
    return size(set) > 1 ? set : 0;
}

void trial_judge(struct policy *p) {
    struct trial *r = &p->trial;
    uint64_t set = compared(p);
    if (set != r->set || p->crowded != r->crowded) {
        if (r->takes)
            crowd_take(p, false);
        *r = (struct trial){.set = set, .crowded = p->crowded, .again = AGAIN_NS};
        p->exclusive = false;
        if (set)
            try_way(p, CORUN);
    }
    if (!set || p->now < r->at)
        return;
    if (r->step == DECIDED) {
        try_way(p, CORUN);
    } else if (!r->timed) {
        r->timed = true;
        r->begin = now(p);
        r->at = p->now + window_ns(p);
    } else if (r->step == CORUN) {
        r->corun = since(p, &r->begin);
        try_way(p, TURNS);
    } else {
        r->turns = since(p, &r->begin);
        decide(p);
    }
}

bool trial_runs(const struct policy *p) {
    return p->trial.set && p->trial.step != DECIDED;
}

uint64_t trial_next(const struct policy *p) {
    return p->trial.set ? p->trial.at : NEVER;
}
