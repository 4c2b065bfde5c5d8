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
/* True: none is under way, and none begins before a call that comes next has entered the driver; it would spoil the
 * capture. */
bool capture_keep_off(void);
/* On a thread that is about to allocate, free, query or wait for us: another one's capture is spoiled by whoever does
 * that and has not said that he knows. capture_restore undoes it. */
struct relaxed {
    bool on; /* false: the driver refused */
    CUstreamCaptureMode before;
};
struct relaxed capture_relax(void);
void capture_restore(struct relaxed r);
/* Whether such a call may come next. One that waits for a whole context spoils captures all the same. */
static inline bool capture_allows(struct relaxed r) {
    return r.on || capture_keep_off();
}
/* Whether this thread began one that goes on. */
bool capture_mine(void);
/* True when operations issued into the stream are captured, or may be: then nothing of ours may land there. */
bool capture_holds(uint64_t stream);
/* The captured operation became the stream's newest node: keep its touches with the node. Extents are known best now:
 * a framework gives back the blocks of a capture before the graph is instantiated. */
void capture_note(const struct op *op);

/* A copy of the operation's touches, or NULL when there is no memory. */
struct node *node_new(const struct op *op);
/* The touches noted for a node when it was captured, or NULL. Valid until node_forget. */
const struct node *node_noted(CUgraphNode node);
/* They hold no more. */
void node_forget(CUgraphNode node);

#endif
