/* What is kept of a graph's nodes until the graph is instantiated. A graph has one user at a time, as with the driver.
 */
#ifndef ULMS_NODE_H
#define ULMS_NODE_H

#include "driver.h"
#include "launch/op.h"

/* The touches of one graph node. */
struct node {
    uint32_t kernels;
    uint32_t count;
    uint16_t flags;   /* OP_BLIND, OP_HIDES: it touches more than is known; OP_ROAMS: perhaps; OP_GATED */
    const void *from; /* host memory that it brings to the device; NULL: none */
    uint64_t from_bytes;
    struct touch touches[];
};

/* A copy of the operation's touches, or NULL when there is no memory. */
struct node *node_new(const struct op *op);
/* What several touch together, those that are NULL left out; `from` only says whether any brings host memory. NULL:
 * there is no memory. */
struct node *node_sum(const struct node *const *nodes, size_t n);
/* Adds what the node touches to an operation that touches nothing yet. */
static inline void node_fill(struct op *op, struct node *n) {
    op->kernels = n->kernels;
    op->count = n->count;
    op->touches = n->touches;
    op->flags |= n->flags;
}
/* Keeps the operation's touches with the node, in place of what was kept. */
void node_note(CUgraphNode node, const struct op *op);
/* What is kept of the node, or NULL. Valid until node_forget. */
const struct node *node_noted(CUgraphNode node);
/* It holds no more; of a child graph node: nor does what is kept of the child's. Before the node ends: afterwards
 * another one may have its address. */
void node_forget(CUgraphNode node);
/* The graph that the node owns, or NULL. */
CUgraph node_child(CUgraphNode node);

/* The nodes, to be freed. False: they cannot be had. */
bool graph_nodes(CUgraph graph, CUgraphNode **nodes, size_t *n);
/* As node_forget, of each node. */
void graph_forget(CUgraph graph);
/* What is kept of the nodes of `from` holds for those of its copy. */
void graph_copied(CUgraph from, CUgraph to);

#endif
