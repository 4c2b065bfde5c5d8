#include "driver/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "driver/session.h"

static struct hash noted; /* CUgraphNode -> struct node */

struct node *node_new(const struct op *op) {
    struct node *n = malloc(sizeof *n + op->count * sizeof n->touches[0]);
    if (n) {
        n->kernels = op->kernels;
        n->count = op->count;
        n->flags = (op->flags & (OP_BLIND | OP_HIDES | OP_ROAMS)) | (op_gates(op) ? OP_GATED : 0);
        n->from = op->from;
        n->from_bytes = op->from_bytes;
        memcpy(n->touches, op->touches, op->count * sizeof n->touches[0]);
    }
    return n;
}

struct node *node_sum(const struct node *const *nodes, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += nodes[i] ? nodes[i]->count : 0;
    struct node *sum = malloc(sizeof *sum + count * sizeof sum->touches[0]);
    if (!sum)
        return NULL;
    *sum = (struct node){.kernels = 0};
    for (size_t i = 0; i < n; i++) {
        const struct node *from = nodes[i];
        if (!from)
            continue;
        sum->kernels += from->kernels;
        sum->flags |= from->flags | (from->count == TOUCH_MAX ? OP_BLIND : 0);
        sum->from = sum->from ? sum->from : from->from;
        memcpy(sum->touches + sum->count, from->touches, from->count * sizeof from->touches[0]);
        sum->count += from->count;
    }
    return sum;
}

static struct node *copy(const struct node *n) {
    size_t bytes = sizeof *n + n->count * sizeof n->touches[0];
    struct node *c = malloc(bytes);
    return c ? memcpy(c, n, bytes) : NULL;
}

/* node is taken over; NULL: nothing is known. */
static void keep(CUgraphNode handle, struct node *node) {
    bool stored = false;
    free(node ? hash_put(&noted, (uint64_t)(uintptr_t)handle, node, &stored)
              : hash_take(&noted, (uint64_t)(uintptr_t)handle));
    if (!stored)
        free(node);
}

void node_note(CUgraphNode node, const struct op *op) {
    keep(node, node_new(op));
}

const struct node *node_noted(CUgraphNode node) {
    return hash_get(&noted, (uint64_t)(uintptr_t)node);
}

CUgraph node_child(CUgraphNode node) {
    CUgraphNodeType type;
    CUgraph child;
    return REAL(cuGraphNodeGetType, 0)(node, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH &&
                   REAL(cuGraphChildGraphNodeGetGraph, 0)(node, &child) == CUDA_SUCCESS
               ? child
               : NULL;
}

void node_forget(CUgraphNode node) {
    CUgraph child = node_child(node);
    keep(node, NULL);
    if (child)
        graph_forget(child);
}

bool graph_nodes(CUgraph graph, CUgraphNode **nodes, size_t *n) {
    *nodes = NULL;
    *n = 0;
    if (REAL(cuGraphGetNodes, 0)(graph, NULL, n) != CUDA_SUCCESS)
        return false;
    *nodes = calloc(*n + 1, sizeof **nodes);
    return *nodes && (*n == 0 || REAL(cuGraphGetNodes, 0)(graph, *nodes, n) == CUDA_SUCCESS);
}

void graph_forget(CUgraph graph) {
    CUgraphNode *nodes;
    size_t n;
    if (graph_nodes(graph, &nodes, &n))
        for (size_t i = 0; i < n; i++)
            node_forget(nodes[i]);
    free(nodes);
}

static bool of_one_type(CUgraphNode a, CUgraphNode b) {
    CUgraphNodeType one, other;
    return REAL(cuGraphNodeGetType, 0)(a, &one) == CUDA_SUCCESS &&
           REAL(cuGraphNodeGetType, 0)(b, &other) == CUDA_SUCCESS && one == other;
}

/* By their places: the driver says which node is whose copy only of what cuGraphClone made. */
void graph_copied(CUgraph from, CUgraph to) {
    CUgraphNode *old, *new;
    size_t n, m;
    bool read = graph_nodes(from, &old, &n), copied = graph_nodes(to, &new, &m), alike = read && copied && n == m;
    for (size_t i = 0; alike && i < n; i++)
        alike = of_one_type(old[i], new[i]);
    for (size_t i = 0; alike && i < n; i++) {
        const struct node *node = node_noted(old[i]);
        CUgraph child = node_child(old[i]);
        keep(new[i], node ? copy(node) : NULL);
        if (child)
            graph_copied(child, node_child(new[i]));
    }
    free(old);
    free(new);
}
