/* What capture.c (its life) and captured.c (its effects) know of a capture. All under capture_lock. */
#ifndef EMU_CAPTURE_INSIDE_H
#define EMU_CAPTURE_INSIDE_H

#include "stream.h"

struct capture {
    uint64_t id;
    CUgraph graph;
    bool own_graph; /* made for it; else the program's */
    CUstreamCaptureMode mode;
    const struct thread *thread; /* that began it */
    CUstream origin;
    bool lost;
    CUstream members;
    unsigned refs; /* streams in it, and events recorded in it */
    struct capture *next;
};

struct capture_point {
    struct capture *capture;
    CUgraphNode *nodes;
    size_t count;
};

extern pthread_mutex_t capture_lock;
extern struct capture *captures; /* that have not ended */

/* Without the lock: so that without captures nobody takes it. */
bool capture_any(void);
void capture_join(CUstream s, struct capture *k);
void capture_release(struct capture *k);
/* A new node behind the stream's last ones becomes its last. Takes the work over. */
CUresult capture_append(CUstream s, CUgraphNodeType type, struct work *w, CUgraphNode *out);
/* The nodes, each once, become the tail, or are added to it. False: no memory, and nothing changed. */
bool tail_set(struct tail *t, const CUgraphNode *nodes, size_t n, bool add);

#endif
