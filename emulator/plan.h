/* Plans: what an instantiated graph does, in the order in which it does it. A launched plan does not change: who wants
 * to change it makes a copy first. */
#ifndef EMU_PLAN_H
#define EMU_PLAN_H

#include "graph.h"

struct plan_step {
    struct work work;
    CUgraphNode origin; /* the node it was made from; may be gone */
    uint64_t origin_id;
    CUgraphNodeType type;
    bool enabled;
    size_t *after; /* steps */
    size_t after_count;
};

struct plan {
    atomic_uint refs;
    size_t count;
    struct plan_step step[];
};

/* Child graphs stand in place of their nodes. NULL: a cycle, or no memory. */
struct plan *plan_new(CUgraph g);
struct plan *plan_copy(const struct plan *p);
struct plan *plan_hold(struct plan *p);
void plan_release(struct plan *p);
/* NULL: it was made from no such node, or the node is gone. */
struct plan_step *plan_find(struct plan *p, const struct CUgraphNode_st *origin);
/* Gives the steps from `first` on the works of `other`, which has the same shape; else nothing changes, and *wrong is
 * the first step of `other` that differs, NULL when their number does. */
CUgraphExecUpdateResult plan_update(struct plan *p, size_t first, size_t count, struct plan *other,
                                    struct plan_step **wrong);
void plan_run(struct plan *p, struct emu_launch *r);

#endif
