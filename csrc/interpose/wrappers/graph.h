/* What the calls that make and change graphs and executable graphs say of them, after the driver's part. */
#ifndef ULMS_GRAPH_H
#define ULMS_GRAPH_H

#include "driver.h"
#include "launch/op.h"

/* The driver took the parameters of a node of a graph. */
void node_given(CUgraphNode node, CUgraphNodeParams parameters);
/* An instantiation. flags: of CUgraphInstantiate_flags. */
void exec_made(const CUgraphExec *handle, CUgraph graph, uint64_t flags);
/* The parameters of one node were set. */
void exec_set(CUgraphExec handle, CUgraphNode node, CUgraphNodeParams parameters);
void exec_enable(CUgraphExec handle, CUgraphNode node, bool enabled);
void exec_update(CUgraphExec handle, CUgraph graph);
/* Around a destroy. What was taken may be NULL. */
struct exec *exec_take(CUgraphExec handle);
void exec_destroyed(struct exec *e, CUresult status, CUgraphExec handle);
/* Keeps with each of the graph's nodes, and its children's, what it touches now, unless that is kept already. */
void graph_note(CUgraph graph);
/* Adds what a graph touches as a whole. */
void touch_graph(struct op *op, CUgraph graph);

#endif
