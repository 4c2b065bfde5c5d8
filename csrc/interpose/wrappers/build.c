/* The calls that build graphs. Nodes are read when the graph is instantiated, but no library's call is open then: a
 * kernel's node that one adds or changes is noted at once, with what it told. */
#include "driver/node.h"
#include "driver/session.h"
#include "interpose/record/parameters.h"
#include "interpose/wrappers/graph.h"
#include "launch/call_extents.h"

/* The driver has put a copy of the graph into the node, or the graph itself. */
static void child(CUgraphNode node, CUgraph graph) {
    CUgraph inside = node_child(node);
    if (inside && inside != graph)
        graph_copied(graph, inside);
}

void node_given(CUgraphNode node, CUgraphNodeParams p) {
    if (p.type == CU_GRAPH_NODE_TYPE_KERNEL && call_under_way()) {
        struct op op = {.touches = thread_self()->touches};
        parameters_touch(&op, &p);
        node_note(node, &op);
    } else if (p.type == CU_GRAPH_NODE_TYPE_GRAPH) {
        child(node, p.graph.graph);
    } else {
        node_forget(node);
    }
}

/* --- new parameters --- */

/* The nodes of a child that is replaced end in the call. */
static void replaces(CUgraphNode node, const CUgraphNodeParams *p) {
    if (session_on && p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        node_forget(node);
}

CUresult custom_cuGraphNodeSetParams(int variant, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    replaces(hNode, nodeParams);
    CUresult status =
        parameters_taken(parameters_refused(nodeParams) ?: REAL(cuGraphNodeSetParams, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS && session_on)
        node_given(hNode, *nodeParams);
    return status;
}

CUresult custom_cuGraphNodeSetParams_v2(int variant, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    replaces(hNode, nodeParams);
    CUresult status =
        parameters_taken(parameters_refused(nodeParams) ?: REAL(cuGraphNodeSetParams_v2, variant)(hNode, nodeParams));
    if (status == CUDA_SUCCESS && session_on)
        node_given(hNode, *nodeParams);
    return status;
}

/* --- ends --- */

CUresult custom_cuGraphDestroyNode(int variant, CUgraphNode hNode) {
    if (session_on)
        node_forget(hNode);
    return REAL(cuGraphDestroyNode, variant)(hNode);
}

CUresult custom_cuGraphDestroy(int variant, CUgraph hGraph) {
    if (session_on)
        graph_forget(hGraph);
    return REAL(cuGraphDestroy, variant)(hGraph);
}
