/* Operations are admitted, and settled once they were issued. See backend.h. */
#ifndef ULMS_PAGER_ADMISSION_H
#define ULMS_PAGER_ADMISSION_H

#include "backend/pager/turn.h"
#include "backend/pager/waiters.h"
#include "ulms.h"

struct pager_admission {
    struct pager_waiters waiters;
    struct pager_turn turn;
    uint32_t untracked;                /* operations under way that were not told, as nothing moved here yet; atomic */
    struct ulms_engine_touch *touches; /* the operation's, while it is told; a graph may have any number */
    size_t touch_room;
    uint64_t largest; /* bytes that one operation touched at most */
};

struct pager;

void pager_admit(struct op *op);
void pager_settle(const struct op *op);
void pager_jumped(void);
/* The operation's own touches. Nothing moves any more where there is no memory for them. */
size_t pager_touches(struct pager *d, const struct op *op);

#endif
