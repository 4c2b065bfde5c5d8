/* A large executable graph, cut into pieces: graphs of some of its nodes each, launched one after the
 * other, so that pages move beside all but one of them. */
#ifndef ULMS_CUT_H
#define ULMS_CUT_H

#include "driver/node.h"
#include "launch/op.h"

struct cut;

/* From now on the executable graph does what the graph does, and touches `sum` (NULL: not known). c: what was kept of
 * it, or NULL. What is kept of it now; NULL: nothing, as it is not large or cannot be cut. launched: it may be under
 * way. */
struct cut *cut_renew(struct cut *c, CUgraph graph, unsigned long long flags, const struct node *sum, bool launched);
void cut_free(struct cut *c);

/* The rest is of one that is kept. */
/* Of the node that the graph listed with this number, from 0: it was given parameters, with which it touches that. */
void cut_set(struct cut *c, size_t number, CUgraphNodeParams *p, const struct op *op);
void cut_enable(struct cut *c, size_t number, bool enabled);
/* What the executable graph does is not known any more: it stays whole. */
void cut_lose(struct cut *c);

/* Around each launch, into whatever stream, of what touches `sum`: two must not overlap. True: cut_launch comes
 * between, in place of the real call. */
bool cut_before(struct cut *c, const struct op *op, const struct node *sum);
/* Admits, issues and closes an operation for each piece. The first one is open. */
CUresult cut_launch(const struct cut *c, struct op *op, int variant, CUstream stream);
void cut_after(struct cut *c, uint64_t stream);

#endif
