/* A graph in pieces: graphs of some of its nodes each, which do the same if they are launched one after the other. */
#ifndef ULMS_PIECES_H
#define ULMS_PIECES_H

#include "base/hash.h"
#include "driver/node.h"

struct piece {
    CUgraphExec exec;
    struct node *sum; /* what it touches */
};

/* Bytes that it touches, in whole pages. */
uint64_t pieces_bytes(const struct node *n);
/* Pieces that touch about `most` bytes each; how many. Nodes of the graph that are in `disabled` are so in them. What
 * each touches was noted. 0: none could be made, or it would be only one. */
size_t pieces_make(CUgraph graph, struct hash *disabled, unsigned long long flags, uint64_t most, struct piece **out);
void pieces_free(struct piece *piece, size_t n);

#endif
