/* Streams: a queue of operations each, executed in order by a thread of its own. */
#ifndef EMU_STREAM_H
#define EMU_STREAM_H

#include "context.h"
#include "work.h"

enum { STREAM_DEPTH = 1018 }; /* operations a stream holds before the caller blocks */

/* A point in a stream: after its first `count` operations. Holds the stream alive. */
struct mark {
    CUstream stream;
    uint64_t count;
};

/* The nodes that the next one captured will come after. */
struct tail {
    CUgraphNode *nodes;
    CUgraphEdgeData *edges; /* all zero */
    size_t count;
};

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    int priority;
    atomic_uint refs;
    CUstream next; /* in one of the context's lists */
    bool listed;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t entered, finished;
    struct item *first, **last;
    uint64_t submitted, done;
    uint64_t clock; /* modelled time at which what is done was done, ns */
    bool started, closing;

    struct capture *capture; /* this and what follows under capture_lock */
    CUstream capture_next;
    struct tail tail;
};

CUstream stream_new(CUcontext c, unsigned flags, int priority);
/* No more is entered; what was entered is done, and who waits for the context waits for it. Nothing happens the second
 * time. */
void stream_destroy(CUstream s);
void stream_hold(CUstream s);
void stream_release(CUstream s);
/* What a handle means: NULL and the two special values are default streams of the current context. */
CUresult stream_find(CUcontext c, CUstream handle, bool per_thread, CUstream *out);
/* True for a stream that the legacy default stream waits for, and which waits for it. */
bool stream_blocks(const struct CUstream_st *s);

/* In an exported function: declares s, the stream that the handle means. */
#define FIND(handle, per_thread)                                                                                       \
    CUstream s;                                                                                                        \
    TRY(stream_find(c, (handle), (per_thread), &s))

/* Enters work, which it takes over also on failure: into the stream, or into the capture the stream is under.
 * Blocks while the stream is full. */
CUresult stream_issue(CUstream s, struct work *w);
/* The same, then waits for it, unless it was captured. */
CUresult stream_issue_and_wait(CUstream s, struct work *w);
/* The same as stream_issue for a stream that does not capture. The work starts after `after`, if not NULL; *at, if not
 * NULL, gets the point behind it, which the caller releases. */
CUresult stream_enter(CUstream s, struct work *w, const struct mark *after, struct mark *at);

/* Waits until the point is passed. Returns the modelled time of the stream then, ns. */
uint64_t stream_wait(const struct mark *m);
/* Nothing waits in it, nor does it wait for other streams. */
bool stream_idle(CUstream s);
bool mark_passed(const struct mark *m);
void mark_release(struct mark *m);

/* Points for everything issued so far in the context, or, for a stream, for what a wait for it waits for.
 * The caller releases them. */
size_t streams_mark(CUcontext c, struct mark **out);
size_t stream_marks(CUstream s, struct mark **out);
/* Waits for what a wait for the stream waits for. */
void stream_wait_all(CUstream s);
void marks_wait(const struct mark *marks, size_t n);
bool marks_passed(const struct mark *marks, size_t n);
void marks_release(struct mark *marks, size_t n);

/* Does the work now, on the stream's worker, from the modelled time `clock` on; returns when it ended. */
uint64_t stream_execute(CUstream s, struct work *w, uint64_t operation, uint64_t clock);

#endif
