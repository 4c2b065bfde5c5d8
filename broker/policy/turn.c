/* Whose turn it is, and how long. */
#include "broker/policy/state.h"

#define TURN_FITS_NS   MS(50) /* where nothing moves */
#define INTERACTIVE_NS MS(100)
enum {
    COMPUTES = 9, /* times as long as it stalls: a tenth of a turn is overhead */
    EXTENDS = 8   /* by so small a part of it, until the next tenant is ready */
};

/* Until one was measured: what does not fit beside another turn comes visibly. */
static uint64_t expected_switch(const struct policy *p, const struct tenant *t) {
    uint64_t other_need = 0, room = p->capacity;
    for (struct tenant *other = NULL; (other = tenant_after(p, other));)
        if (other != t && other->taker && is_awake(p, other))
            other_need = most(other_need, other->told.need);
    if (t->group->set.memory)
        room = least(room, t->group->set.memory);
    uint64_t both = t->told.need + other_need;
    return scaled(least(both - least(both, room), t->told.need), MS(1000), p->rate);
}

static uint64_t switch_ns(const struct policy *p, const struct tenant *t) {
    return t->switched ? t->switch_ns : expected_switch(p, t);
}

uint64_t turn_length(const struct policy *p, const struct tenant *t) {
    if (p->fixed_turn)
        return p->fixed_turn;
    if (!in_turns(p))
        return TURN_FITS_NS;
    uint64_t brings = scaled(t->told.need, MS(1000), p->rate); /* in a shorter one the link would fall behind */
    return least(most(most(scaled(switch_ns(p, t), COMPUTES, 1), brings), TURN_FITS_NS), TURN_MOST_NS);
}

uint64_t turn_request(const struct policy *p, const struct tenant *t) {
    uint64_t length = turn_length(p, t);
    return t->burst_ns ? least(most(most(t->burst_ns, t->spell_ns), LEAST_REQUEST_NS), length) : length;
}

/* Whoever gives up a turn waits for another's. */
uint64_t turn_pause(const struct policy *p, const struct tenant *t) {
    uint64_t longest = turn_length(p, t);
    for (struct tenant *other = NULL; (other = tenant_after(p, other));)
        if (other->taker && is_awake(p, other))
            longest = most(longest, turn_length(p, other));
    return most(IDLE_NS, least(t->burst_ns, longest / EXTENDS));
}

/* Where memory moves it rests for half as long as it uses, or longer: whose steps only pause is in no hurry. */
bool turn_is_interactive(const struct policy *p, const struct tenant *t) {
    uint64_t request = turn_request(p, t);
    bool hurries = t->burst_ns && (!in_turns(p) || 2 * t->rest_ns >= t->burst_ns);
    return hurries && request < turn_length(p, t) && request <= INTERACTIVE_NS;
}

bool turn_takes(const struct policy *p, const struct tenant *t) {
    return in_turns(p) ? t->taker : p->exclusive;
}

static bool contends(const struct tenant *t) {
    return t->deadline != NEVER;
}

static struct tenant *first(const struct policy *p) {
    struct tenant *best = NULL;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (contends(t) && (!best || share_before(p, t, best)))
            best = t;
    return best;
}

static void begin(struct policy *p, struct tenant *t) {
    p->holder = t;
    p->began = p->now;
    p->length = turn_length(p, t);
    p->state.turns++;
    t->sums.turns++;
    if (t->turned)
        return;
    t->turned = true;
    t->stalled_before = t->told.stalled_ns;
}

/* --- the end of a turn --- */

/* Its pages would have to come again. */
static uint64_t idle_ns(const struct policy *p, const struct tenant *t) {
    uint64_t pause = turn_pause(p, t);
    return in_turns(p) && t->rest_ns <= pause ? pause : 0;
}

static bool is_preempted(const struct policy *p) {
    const struct tenant *h = p->holder;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t != h && contends(t) && turn_is_interactive(p, t) && share_eligible(p, t) && share_before(p, t, h))
            return true;
    return false;
}

/* Of the holder's turn, while another one waits for it. */
static bool is_over(struct policy *p) {
    const struct tenant *h = p->holder, *next = first(p);
    bool cut = is_preempted(p);
    if (!is_busy(h)) {
        p->ends = h->wanted_ns + idle_ns(p, h);
        return p->now >= p->ends;
    }
    p->ends = p->began + p->length;
    if (cut)
        p->ends = least(p->ends, p->began + (in_turns(p) ? switch_ns(p, h) : 0));
    if (p->now < p->ends)
        return false;
    if (next == h) {
        begin(p, p->holder);
        p->ends = p->began + p->length;
        return false;
    }
    return cut || !in_turns(p) || next->told.ready || p->now >= p->ends + p->length / EXTENDS;
}

static void judge_holder(struct policy *p) {
    p->ends = NEVER;
    p->contended = false;
    if (p->holder && !turn_takes(p, p->holder))
        p->holder = NULL; /* it co-runs from now on */
    if (!p->holder)
        return;
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        p->contended |= t != p->holder && contends(t);
    if (!share_permits(p, p->holder, false) || (p->contended && is_over(p))) {
        p->holder = NULL;
        p->ends = NEVER;
        p->contended = false;
    }
}

/* --- gates --- */

static bool may_issue(const struct policy *p, const struct tenant *t) {
    return turn_takes(p, t) ? t == p->holder : share_permits(p, t, true);
}

static void close_gates(struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));) {
        if (t->open && !may_issue(p, t)) {
            t->open = false;
            t->draining = true;
            t->closed_ns = p->now;
        }
        if (t->draining && !t->late && p->now - t->closed_ns >= PATIENCE_NS) {
            t->late = true;
            t->sums.late++;
        }
    }
}

static void open_gates(struct policy *p) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (!t->open && may_issue(p, t)) {
            t->open = true;
            t->draining = t->late = false;
        }
}

static bool others_drain(const struct policy *p, const struct tenant *elect) {
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t != elect && turn_takes(p, t) && t->draining && !t->late)
            return true;
    return false;
}

void turn_judge(struct policy *p) {
    judge_holder(p);
    close_gates(p);
    p->elect = p->holder ? NULL : first(p);
    if (p->elect && !others_drain(p, p->elect)) {
        begin(p, p->elect);
        p->elect = NULL;
        for (struct tenant *t = NULL; (t = tenant_after(p, t));)
            p->contended |= t != p->holder && contends(t);
        p->ends = p->contended ? p->began + p->length : NEVER;
    }
    open_gates(p);
}

void turn_drained(struct tenant *t) {
    uint64_t stalled = t->told.stalled_ns - least(t->told.stalled_ns, t->stalled_before);
    t->draining = t->late = false;
    if (t->turned && t->taker) {
        stalled = least(stalled, TURN_MOST_NS);
        t->switch_ns = t->switched ? (3 * t->switch_ns + stalled) / 4 : stalled;
        t->switched = true;
    }
    t->turned = false;
}

/* The first of two moments that is still to come. */
static uint64_t sooner(const struct policy *p, uint64_t next, uint64_t at) {
    return at > p->now ? least(next, at) : next;
}

uint64_t turn_next(const struct policy *p) {
    uint64_t next = NEVER;
    if (p->holder && p->contended) {
        next = sooner(p, next, p->ends);
        next = sooner(p, next, p->ends + p->length / EXTENDS);
    }
    for (struct tenant *t = NULL; (t = tenant_after(p, t));)
        if (t->draining && !t->late)
            next = sooner(p, next, t->closed_ns + PATIENCE_NS);
    return next;
}
