/* Nodes' parameters: between the driver's structures and work. */
#ifndef EMU_NODE_H
#define EMU_NODE_H

#include "graph.h"

/* What a node with these parameters does. The address of an allocation is chosen here and put into *p. */
CUresult work_of_params(CUcontext c, CUgraphNodeParams *p, struct work *w);
/* The parameters of the node; pointers lead into it. */
CUresult params_of_node(CUgraphNode n, CUgraphNodeParams *p);
/* A node with these parameters after n others. */
CUresult node_add(CUgraph g, CUgraphNode *out, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t n,
                  CUgraphNodeParams *p);
/* Gives the work of a node, or of a place in a plan, new parameters of the same type. */
CUresult work_set_params(struct work *w, CUgraphNodeType type, CUgraphNodeParams *p);

#endif
