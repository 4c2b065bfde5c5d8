/* What the files of the policy share; no other folder includes it. */
#ifndef BROKER_POLICY_STATE_H
#define BROKER_POLICY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/policy.h"

#define MS(n) ((uint64_t)(n) * 1000000)
#define NEVER UINT64_MAX

#define AWAY_NS          MS(1000) /* after so long without wanting a need does not count */
#define IDLE_NS          MS(50)   /* so long at least a turn for which memory moved outlives its last work */
#define PATIENCE_NS      MS(500)  /* so long one tenant waits for another to drain or to shrink */
#define POLL_NS          MS(10)   /* so often shares are looked at while they bind */
#define IN_FLIGHT_NS     MS(2)    /* predicted work in flight while others wait */
#define LEAST_REQUEST_NS MS(2)    /* of time, for a deadline */
#define TURN_MOST_NS     MS(20000)
#define BUCKET_NS        MS(100)             /* what a limit lets a group save up: a hundredth of 10 s */
#define BYTES_MOST       (UINT64_C(1) << 56) /* more than any GPU has: sums of what tenants say do not overflow */
enum { THOUSAND = 1000 };

struct group {
    uint32_t id; /* 0: the row is not in use */
    uint32_t tenants;
    struct policy_group set;
    /* time */
    uint32_t weight;
    int64_t tokens; /* ns that it may still use under its limit */
    bool spent;     /* its bucket ran dry, and is not half full yet */
    bool ahead;     /* it had more than its share, and has not been caught up with */
    bool candidate; /* a tenant of it has a turn, or wants one and is permitted to */
    bool was_candidate;
    uint64_t virtual; /* time: what it used, divided by its weight */
    uint64_t pass;    /* the most that all of its busy tenants were known to have used */
    /* bytes, of a decision */
    uint64_t need; /* of its tenants that are awake */
    uint64_t room, part, sharers;
    uint64_t reserved; /* when the last event was in, for the checker */
};

struct tenant {
    uint32_t id; /* 0: the row is not in use */
    struct group *group;
    struct policy_report told;
    struct policy_lease lease;
    struct policy_tenant sums;
    bool changed; /* its lease was not read yet */
    uint32_t suspended;
    /* bytes */
    uint64_t floor, budget, fill, target;
    uint64_t reserved;      /* that it may hold */
    uint64_t budget_serial; /* of the lease that changed the budget last */
    uint64_t shrinks_ns;    /* since when it may hold more than its budget; NEVER: it may not */
    bool taker;             /* its need fits only if others leave */
    /* turns */
    bool open; /* its gate */
    bool draining;
    bool late;               /* it has drained for too long: nobody waits for it */
    uint64_t gate_serial;    /* of the lease that closed its gate last */
    uint64_t closed_ns;      /* when that was */
    bool turned;             /* it had an exclusive turn, and has not drained */
    uint64_t stalled_before; /* told.stalled_ns when that turn began */
    uint64_t switch_ns;      /* what a turn stalls */
    uint64_t stalled_looked; /* told.stalled_ns when refills were looked at last */
    bool switched;           /* and that was measured */
    /* time */
    uint64_t wanted_ns; /* the last time at which it wanted; NEVER: it never did */
    bool works;         /* it is busy, and has issued operations since it was not */
    uint64_t idle_ns;   /* since when it is idle: it worked, joined or was resumed last */
    uint64_t charged_ns;
    uint64_t charged_told; /* the same at its last report */
    uint64_t pass;         /* what it used, beside the others of its group */
    uint64_t spell_ns;     /* what it used since it was idle */
    uint64_t burst_ns;     /* what it uses between two idle spans; 0: it was never idle */
    uint64_t rest_ns;      /* an idle span; 0: not known */
    uint64_t start;        /* of its next turn, in virtual time */
    uint64_t deadline;     /* NEVER: it does not contend for turns */
};

/* What a trial measured of a tenant, and of a way. */
struct sample {
    uint64_t operations, charged_ns;
};

struct way {
    struct sample of[POLICY_TENANTS];
    uint64_t wall_ns, charged_ns;
};

struct trial {
    uint64_t set; /* tenants that are compared, a bit a row; 0: nothing is tried */
    bool crowded; /* was it, when they were first compared */
    bool takes;   /* takers take turns because of it */
    int step;
    bool timed;     /* the window under way; else it settles */
    uint64_t at;    /* when the step goes on */
    uint64_t again; /* ns that the next decision lasts */
    struct way begin, corun, turns;
};

struct thrash {
    bool on;
    uint64_t begun, refilled, looks;
};

struct policy {
    uint64_t now, capacity, rate, fixed_turn;
    uint32_t resident; /* tenants at most; 0: any number */
    struct group groups[POLICY_GROUPS];
    struct tenant tenants[POLICY_TENANTS];
    struct policy_state state;
    uint64_t reserved; /* bytes when the last event was in, for the checker */
    /* who fits */
    bool crowded, taking;
    uint64_t fits_since;  /* while it is not crowded */
    uint64_t taking_need; /* of all when turns began */
    struct thrash thrash;
    struct trial trial;
    bool exclusive;
    /* shares */
    uint64_t charged_ns; /* of all tenants */
    uint64_t virtual;    /* time of all candidates */
    uint64_t ahead_ns;   /* when a group was ahead last; NEVER: none was */
    int32_t top;         /* the highest priority that wants and is permitted to */
    bool unspent;        /* a tenant wants whose group is within its limit */
    /* turns */
    struct tenant *holder;
    struct tenant *elect; /* gets the turn when the last one has drained */
    bool contended;       /* another one waits for the holder's turn */
    uint64_t began, length;
    uint64_t ends; /* NEVER: nobody waits for it */
    /* bytes, of a decision */
    struct tenant *order[POLICY_TENANTS]; /* who is given them first */
    size_t ordered;
    uint64_t room;
};

static inline uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ns of a group's time in virtual time. */
static inline uint64_t virtually(const struct group *g, uint64_t ns) {
    return ns * THOUSAND / g->weight;
}

/* a·b/c without overflow between; c above 0, and the result as large as fits. */
static inline uint64_t scaled(uint64_t a, uint64_t b, uint64_t c) {
    unsigned __int128 whole = (unsigned __int128)a * b / c;
    return whole > UINT64_MAX ? UINT64_MAX : (uint64_t)whole;
}

static inline bool has_work(const struct tenant *t) {
    return t->told.wants || t->told.in_flight;
}

static inline bool is_busy(const struct tenant *t) {
    return !t->suspended && has_work(t);
}

static inline bool is_awake(const struct policy *p, const struct tenant *t) {
    return is_busy(t) || (!t->suspended && t->wanted_ns != NEVER && p->now - t->wanted_ns < AWAY_NS);
}

/* table.c */
struct tenant *tenant_find(const struct policy *p, uint32_t id);
struct group *group_find(const struct policy *p, uint32_t id);
/* The next one; NULL begins, and ends. */
struct tenant *tenant_after(const struct policy *p, const struct tenant *t);
struct group *group_after(const struct policy *p, const struct group *g);
uint64_t bytes_reserved(const struct policy *p, const struct group *g); /* g NULL: of all */
int group_put(struct policy *p, uint32_t id, const struct policy_group *set);
int group_take(struct policy *p, uint32_t id);
int tenant_put(struct policy *p, uint32_t id, struct group *g, uint64_t floor, uint64_t held);
void tenant_take(struct policy *p, struct tenant *t);

/* park.c: who is idle is put away */
void park_judge(struct policy *p);
uint64_t park_next(const struct policy *p);

/* crowd.c: whose needs fit */
void crowd_judge(struct policy *p);
/* Takers take turns from now on, or not. */
void crowd_take(struct policy *p, bool turns);
/* The takers take turns. */
static inline bool in_turns(const struct policy *p) {
    return p->crowded && p->taking;
}
uint64_t crowd_next(const struct policy *p);

/* trial.c */
void trial_judge(struct policy *p);
/* What is in flight is bounded meanwhile, so that both ways are the same but for turns, and gates close soon. */
bool trial_runs(const struct policy *p);
uint64_t trial_next(const struct policy *p);

/* share.c */
void share_charge(struct policy *p, uint64_t now);
void share_judge(struct policy *p);
/* Limit and priority let it issue; rationed: and so does its share, as it co-runs. */
bool share_permits(const struct policy *p, const struct tenant *t, bool rationed);
/* It wants to issue and is permitted to. */
bool share_wants(const struct policy *p, const struct tenant *t);
/* Of two that contend for turns: a comes first. */
bool share_before(const struct policy *p, const struct tenant *a, const struct tenant *b);
bool share_eligible(const struct policy *p, const struct tenant *t);
uint64_t share_next(const struct policy *p);

/* turn.c */
uint64_t turn_length(const struct policy *p, const struct tenant *t);
/* ns of a turn that it is likely to use. */
uint64_t turn_request(const struct policy *p, const struct tenant *t);
/* Over so long a pause it keeps a turn for which memory moved, if its pauses are usually as short. */
uint64_t turn_pause(const struct policy *p, const struct tenant *t);
/* It uses little at a time, and would wait long. */
bool turn_is_interactive(const struct policy *p, const struct tenant *t);
/* It has turns alone: of those with whom it shares them one has one at a time. */
bool turn_takes(const struct policy *p, const struct tenant *t);
void turn_judge(struct policy *p);
/* A tenant that had a turn has drained. */
void turn_drained(struct tenant *t);
uint64_t turn_next(const struct policy *p);

/* budget.c */
void budget_judge(struct policy *p);
uint64_t budget_next(const struct policy *p);

#endif
