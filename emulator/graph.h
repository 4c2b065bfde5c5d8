/* Graphs: nodes, what each does, and which it comes after. Guarded by their user, as with the driver. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H

#include "stream.h"

struct edge {
    CUgraphNode from;
    CUgraphEdgeData data;
};

struct CUgraphNode_st {
    uint64_t id; /* that no other node ever has */
    CUgraph graph;
    CUgraphNodeType type;
    struct work work;
    struct edge *after;
    size_t after_count;
    CUgraphNode copy_of; /* in the graph that this one is a clone of */
    void **view;         /* pointers to a kernel's arguments, for who asks */
    long index;          /* place in the last graph_order, or -1 */
    CUgraphNode next;    /* in order of creation */
    CUgraphNode living_next, *living_at;
};

struct CUgraph_st {
    CUgraphNode first, *last;
    size_t count;
    CUgraph copy_of;
    bool child; /* of a node, which owns it */
};

CUgraph graph_new(void);
void graph_free(CUgraph g);
/* NULL: no memory. */
CUgraph graph_clone(CUgraph g);
/* A new node that does w, which is taken over also on failure, after n nodes. edges may be NULL. */
CUresult node_new(CUgraph g, CUgraphNodeType type, struct work *w, const CUgraphNode *after,
                  const CUgraphEdgeData *edges, size_t n, CUgraphNode *out);
/* The node comes after another as well. */
bool node_add_edge(CUgraphNode to, CUgraphNode from, const CUgraphEdgeData *data);
bool node_has_edge(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from);
void node_remove_edge(CUgraphNode to, const struct CUgraphNode_st *from);
void node_free(CUgraphNode n);
/* Its id; 0: it was destroyed, by itself or with its graph. By any thread. */
uint64_t node_living(const struct CUgraphNode_st *n);
/* The nodes in an order in which each comes after what it depends on; NULL when there is a cycle or no memory. */
CUgraphNode *graph_order(CUgraph g);
/* A copy that owns its own. False: no memory. */
bool work_copy(const struct work *w, struct work *out);

#endif
