/* Ordered policies: the thread that issues an operation issues its moves. */
#ifndef ULMS_PAGER_ORDERED_H
#define ULMS_PAGER_ORDERED_H

#include "backend/pager/moves.h"
#include "launch/op.h"

struct pager_ordered {
    bool ordering;   /* a thread is issuing moves */
    CUstream stream; /* of the moves; NULL: none */
    CUcontext context;
};

struct pager;

/* One thread at a time tells of an operation and issues its moves: what these come after was issued before, so that its
 * thread waits for nothing but the driver until it is marked. False: there are movers for that. Under the lock. */
bool pager_order_begin(struct pager *d);
/* Issues the moves that the operation needs, and makes its stream wait for them. serial 0: it needs none. Under the
 * lock. */
void pager_order_end(struct pager *d, const struct op *op, uint64_t serial);
/* The context is about to go, and its streams with it. Under the lock. */
void pager_order_leave(struct pager *d, CUcontext going);

#endif
