/* Markers: events behind operations and moves, which tell that these are done. */
#ifndef ULMS_PAGER_MARKERS_H
#define ULMS_PAGER_MARKERS_H

#include "backend/pager/worker.h"
#include "driver.h"
#include "launch/op.h"

enum pager_marked { PAGER_OPERATION, PAGER_MOVE, PAGER_GATE };

struct pager_marker {
    CUevent event;
    CUcontext context;
    uint64_t stream;
    uint32_t thread; /* for the stream of each thread; else 0 */
    enum pager_marked of;
    uint64_t id; /* the operation's ticket, the move's id */
    struct pager_marker *next;
};

/* A lock of its own, below the device's: threads of the program would wait for who plans moves. */
struct pager_markers {
    struct lock lock;
    struct condition recorded;          /* the first, while the watcher sleeps */
    struct pager_marker *first, **last; /* recorded and not seen by the watcher */
    struct pager_marker *spare;
    bool watched;               /* the watcher will look soon; else it sleeps. Atomic */
    struct pager_queue *queues; /* the watcher's alone */
    struct pager_worker watcher;
};

struct pager;

/* Records behind what the stream holds now; moving ends where that cannot be done. Takes the lock; the caller does not
 * have it. */
void pager_mark(struct pager *d, const struct op *op, uint64_t ticket);
/* The operation gates what is behind it: from now on, until its marker is done. Without the lock. */
void pager_mark_gate(const struct op *op);
/* There was one while nothing moved: it may be closed still. */
bool pager_gates_unseen(void);
/* The same for a move, on a stream of ours. The caller has the lock. False: not recorded. */
bool pager_mark_move(struct pager *d, CUstream stream, uint64_t id, CUevent *event);
/* The watcher's: takes over what was recorded; true when something is pending. Under the lock. */
bool pager_marks_take(struct pager *d);
/* The watcher's: until something is recorded, CLOCK_MONOTONIC `until_ns` at most. Without the lock. */
void pager_marks_sleep(struct pager *d, uint64_t until_ns);
/* It is to look, though nothing is recorded. */
void pager_marks_wake(struct pager *d);
/* The watcher's: asks the driver; a list of those that are done. Without the lock. */
struct pager_marker *pager_marks_poll(struct pager *d);
/* Back among the spare ones. */
void pager_mark_spare(struct pager *d, struct pager_marker *m);
/* The driver's answer that a context is gone, and all its work with it. */
bool pager_gone(CUresult status);
/* The spare ones of a context that goes. */
void pager_marks_forget(struct pager *d, CUcontext context);

#endif
