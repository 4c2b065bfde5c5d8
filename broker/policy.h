/* The broker's policy: which tenant holds how many bytes of a GPU, and which may issue. Plain declarations and enums:
 * Python reads this header too (it skips the lines that begin with #).
 *
 *   tenant   a process that joined
 *   group    tenants under one name: one share of time, one memory limit
 *   broker   the process that plans: it tells each tenant its budget and its turn
 *   lease    what a tenant may do until it is told otherwise: numbers only
 *   need     bytes that a tenant's learnt sequence touches in its next turn; its live bytes if nothing is learnt
 *   suspended  it has no turn and a budget of nothing until it is resumed: for the policy it wants and needs nothing
 *   parked   the policy suspended it, as it was idle: it is resumed as soon as it wants
 *   turn     a span in which a tenant may issue; tenants that co-run have one at the same time
 *   floor    bytes that a tenant keeps while it has no turn
 *   request  the least share of GPU time that a group gets while it wants it
 *   limit    the most share of GPU time that a group gets
 *
 * One policy a GPU. It is told what happens and asked for the leases that changed. It calls nothing, reads no clock,
 * takes no lock and allocates only in policy_new: one caller at a time, and the same events give the same leases.
 * tests/reference/broker.py has the rules.
 *
 * Times are ns of one clock that does not go back; a time before the latest one counts as the latest one. Shares are in
 * thousandths. Every event returns POLICY_OK, or what was wrong and then changed nothing. After every event, and at
 * policy_next_ns, the caller drains policy_next_lease.
 *
 * What a tenant does with a lease:
 * - budget: as soon as it has read the lease it fills nothing above the budget, and evicts down to it. Once it holds no
 *   more, it acknowledges the lease's serial with the bytes that it holds; while it shrinks it may do so earlier, as
 *   often as it likes, with the bytes that are left. It counts bytes as gone once the driver has them back. A lease
 *   that does not lower the budget is acknowledged at once.
 * - may_issue 0: it issues nothing from then on. Once nothing of it is in flight it reports, and then says that it
 *   drained, with the lease's serial. It does so even if nothing was in flight.
 * - in_flight_ns: it issues an operation only while the predicted work in flight is less. One operation always may.
 * - fill_bytes: without a turn it fills ahead, in its predicted order, until it holds so many bytes. 0: it fills
 *   nothing and keeps what it has.
 * - pin 1: it pins host memory for all that it holds before that has to leave.
 * - turn_ends_ns: the engine's horizon: what is next touched after it may be evicted for what is touched before it.
 *
 * When a tenant reports:
 * - at once, when it begins to want (a thread stops at the gate, or it issues after a pause) and when `ready` changes
 *   while it wants and has no turn;
 * - at once, when it stops wanting: nothing was issued for 0.3 ms and nothing is in flight;
 * - each 10 ms while a lease bounds what is in flight, and else each 50 ms while it issues;
 * - when its need has changed by a sixteenth.
 *
 * What the daemon does: it calls policy_leave when a tenant's socket ends and the driver has the memory back. A tenant
 * from which nothing came for 1 s it reports as one that does not want, with nothing in flight, and acknowledges what
 * it held then in its place. */
#ifndef BROKER_POLICY_H
#define BROKER_POLICY_H

#include <stdint.h>

enum {
    POLICY_OK = 0,
    POLICY_UNKNOWN = 1, /* no tenant or group of that id */
    POLICY_TAKEN = 2,   /* a tenant has that id already, or a group still has tenants */
    POLICY_FULL = 3,    /* no room in the tables */
    POLICY_WRONG = 4    /* a value that makes no sense: a share above 1000 */
};

enum { POLICY_SUSPENDED = 1, POLICY_PARKED = 2 };

enum { POLICY_TENANTS = 64, POLICY_GROUPS = 64 }; /* the most of each */

struct policy_group {
    uint64_t memory;  /* bytes that its tenants may hold together; 0: the capacity */
    uint32_t request; /* thousandths of GPU time; 0: an equal part of what no group requested */
    uint32_t limit;   /* thousandths of GPU time; 0: none */
    uint32_t hard;    /* 1: never above the limit; 0: what nobody else wants may be used */
    int32_t priority; /* a group runs only while no group of a higher priority wants to */
    uint32_t pin;     /* 1: its tenants pin host memory ahead of need */
    uint32_t idle_s;  /* seconds: a tenant that was idle for so long is parked; 0: none is */
};

struct policy_report {
    uint64_t need;       /* bytes */
    uint64_t resident;   /* bytes on the device */
    uint64_t clean;      /* of these, whose host copy is up to date */
    uint64_t operations; /* retired since it joined */
    uint64_t refilled;   /* bytes since it joined that came back after they had left because the budget was low */
    uint64_t stalled_ns; /* since it joined: it had a turn, and an operation waited for pages */
    uint32_t wants;      /* 1: it issues, or a thread waits at the gate; while it is parked only the latter */
    uint32_t in_flight;  /* 1: operations of it have not retired */
    uint32_t ready;      /* 1: the pages of the first operations of its next turn are resident */
    uint32_t um;         /* 1: managed memory, which the driver evicts for others' vmm memory */
};

struct policy_lease {
    uint64_t serial; /* from 1; grows with each change of this tenant's lease */
    uint64_t budget; /* bytes */
    uint64_t fill_bytes;
    uint64_t in_flight_ns; /* UINT64_MAX: no bound */
    uint64_t turn_ends_ns; /* UINT64_MAX: not known */
    uint32_t tenant;
    uint32_t may_issue; /* 0 or 1 */
    uint32_t suspended; /* 0, POLICY_SUSPENDED or POLICY_PARKED */
    uint32_t pin;       /* 0 or 1 */
};

/* Sums since the tenant joined, and what is so now. */
struct policy_tenant {
    uint64_t budget;     /* bytes, now */
    uint64_t reserved;   /* bytes that it may hold, now: the greatest budget since its last acknowledgement */
    uint64_t hold_ns;    /* it held a turn: from grant to drained */
    uint64_t charged_ns; /* the same, divided by how many held one at the time */
    uint64_t waited_ns;  /* it wanted and might not issue */
    uint64_t turns;      /* that began; a turn that is prolonged is another one */
    uint64_t late;       /* turns that had not drained after 500 ms */
    uint64_t switch_ns;  /* now: what a turn of it is expected to stall for pages */
    uint64_t draining;   /* now: 1: its gate was closed, and it has not drained */
};

struct policy_state {
    uint32_t crowded;   /* 1: the needs of those that are awake do not fit */
    uint32_t taking;    /* 1: because of that, they take turns */
    uint32_t exclusive; /* 1: all fits, and turns were measured to be faster */
    uint32_t holder;    /* the tenant that has the exclusive turn; 0: nobody */
    uint32_t elect;     /* the tenant that has it as soon as the others have drained; 0: nobody */
    uint64_t turns;     /* exclusive ones */
    uint64_t thrashed;  /* times that turns began because of refills */
    uint64_t trials;    /* times that both ways were compared */
};

struct policy;

/* capacity: bytes of the GPU to share out. rate: bytes a second over the link each way, above 0. NULL: no memory, or no
 * rate. */
struct policy *policy_new(uint64_t capacity, uint64_t rate);
void policy_free(struct policy *p);

/* The bytes to share out are others. */
int policy_capacity(struct policy *p, uint64_t now, uint64_t bytes);
/* Exclusive turns last so long; 0: as the policy chooses. */
int policy_turn(struct policy *p, uint64_t now, uint64_t ns);
/* At most so many tenants are not suspended, as long as others have been idle for a second; 0: any number. */
int policy_resident(struct policy *p, uint64_t now, uint32_t tenants);
/* A group appears, or its settings are others. id: above 0. */
int policy_group(struct policy *p, uint64_t now, uint32_t id, const struct policy_group *group);
/* A group without tenants is gone. */
int policy_group_gone(struct policy *p, uint64_t now, uint32_t id);

/* A tenant appears; id: above 0, one that no present tenant has. held: bytes that it holds already, from an earlier
 * broker. Its first lease always comes. */
int policy_join(struct policy *p, uint64_t now, uint32_t tenant, uint32_t group, uint64_t floor, uint64_t held);
/* A tenant is gone, and its memory is free. */
int policy_leave(struct policy *p, uint64_t now, uint32_t tenant);
int policy_report(struct policy *p, uint64_t now, uint32_t tenant, const struct policy_report *report);
/* It has read the lease of that serial, holds so many bytes and will hold no more than these or its budget. One that
 * comes too late, when the budget has changed since that lease, changes nothing. */
int policy_acknowledge(struct policy *p, uint64_t now, uint32_t tenant, uint64_t serial, uint64_t held);
/* It has read the lease of that serial, which closed its gate, and nothing of it is in flight. One that comes too late
 * changes nothing. */
int policy_drained(struct policy *p, uint64_t now, uint32_t tenant, uint64_t serial);
/* 1: it is suspended; 0: resumed. */
int policy_suspend(struct policy *p, uint64_t now, uint32_t tenant, uint32_t suspended);
/* Time passes. */
int policy_tick(struct policy *p, uint64_t now);
/* When to call policy_tick if nothing else happens; UINT64_MAX: never. */
uint64_t policy_next_ns(const struct policy *p);

/* The next lease that changed. 0: none is left. */
int policy_next_lease(struct policy *p, struct policy_lease *out);

int policy_tenant(const struct policy *p, uint32_t tenant, struct policy_tenant *out);
void policy_state(const struct policy *p, struct policy_state *out);
/* NULL, or which invariant is violated. The invariants:
 * - the budgets of all tenants, and those of a group, are together at most the capacity and the group's memory;
 * - so are the reserved bytes; if an event put them above, no budget grew since;
 * - no budget is above the tenant's reserved bytes;
 * - of those that take turns, one at most may issue;
 * - one that is suspended has no budget and may not issue;
 * - who may issue is neither above a hard limit nor below a priority that wants. */
const char *policy_check(const struct policy *p);

#endif
