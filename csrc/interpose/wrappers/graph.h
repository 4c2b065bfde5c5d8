/* What the calls that make and change executable graphs (update.c) say of them. */
#ifndef ULMS_GRAPH_H
#define ULMS_GRAPH_H

#include "driver.h"
#include "launch/op.h"

/* An instantiation returned `status`. flags: of CUgraphInstantiate_flags. */
void exec_made(CUresult status, const CUgraphExec *handle, CUgraph graph, uint64_t flags);
/* The parameters of one node were set. */
void exec_set(CUgraphExec handle, CUgraphNode node, CUgraphNodeParams parameters);
void exec_enable(CUgraphExec handle, CUgraphNode node, bool enabled);
void exec_update(CUgraphExec handle, CUgraph graph);
/* Around a destroy. What was taken may be NULL. */
struct exec *exec_take(CUgraphExec handle);
void exec_destroyed(struct exec *e, CUresult status, CUgraphExec handle);
/* Adds what a graph touches as a whole. */
void touch_graph(struct op *op, CUgraph graph);

#endif
