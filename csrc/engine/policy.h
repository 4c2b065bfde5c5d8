/* Policies, and what operations and moves go through with each kind of them. */
#ifndef ULMS_ENGINE_POLICY_H
#define ULMS_ENGINE_POLICY_H

#include <stdbool.h>

#include "ulms.h"

struct move;
struct operation;

struct policy_kind {
    /* False: no memory, nothing changed. */
    bool (*issued)(struct ulms_engine *e, struct operation *op);
    int (*admit)(struct ulms_engine *e, struct operation *op, int at_once, uint64_t *wait);
    void (*retired)(struct ulms_engine *e, struct operation *op, uint64_t now);
    /* The next move of a lane. NULL: none now, or no memory. */
    struct move *(*next)(struct ulms_engine *e, int lane);
    /* Returns how many pages it moved. */
    uint64_t (*moved)(struct ulms_engine *e, const struct ulms_move *m, bool ok);
};
extern const struct policy_kind policy_ahead;   /* an operation is held until its pages are here */
extern const struct policy_kind policy_ordered; /* to compare with: all is decided when an operation is issued */

struct policy {
    struct ulms_policy about;
    const struct policy_kind *kind;
    bool fills; /* else the kernel faults the pages in */
};

/* NULL: none of that name. Name NULL: the default. */
const struct policy *policy_find(const char *name);

static inline bool policy_holds(const struct policy *p) {
    return p->kind == &policy_ahead;
}

#endif
