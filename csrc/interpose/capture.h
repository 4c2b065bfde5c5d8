/* Stream captures: what is issued into one does not run, and nothing of ours may land in it. */
#ifndef ULMS_CAPTURE_H
#define ULMS_CAPTURE_H

#include "driver.h"
#include "launch/op.h"

/* The touches of one graph node. */
struct node {
    uint32_t kernels;
    uint32_t count;
    uint8_t flags;    /* OP_BLIND, OP_HIDES: it touches more than is known */
    const void *from; /* host memory that it brings to the device; NULL: none */
    uint64_t from_bytes;
    struct touch touches[];
};

/* True while any stream of the process captures. */
extern int captures_open; /* counted before they begin */
static inline bool capture_any(void) {
    return __atomic_load_n(&captures_open, __ATOMIC_RELAXED) > 0;
}
/* True: none is under way, and none begins before a wait for a whole context that comes next has entered the driver; it
 * would spoil the capture. */
bool capture_keep_off(void);
/* Whether this thread began one that goes on. */
bool capture_mine(void);
/* True when operations issued into the stream are captured. */
bool capture_holds(uint64_t stream);
/* The captured operation became the stream's newest node: keep its touches with the node. Extents are known best now:
 * a framework gives back the blocks of a capture before the graph is instantiated. */
void capture_note(const struct op *op);

/* A copy of the operation's touches, or NULL when there is no memory. */
struct node *node_new(const struct op *op);
/* The touches noted for a node when it was captured, or NULL. Valid until its graph is destroyed. */
const struct node *node_noted(CUgraphNode node);

#endif
