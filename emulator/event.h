/* Events: the last record of each, as a point in a stream and a time. */
#ifndef EMU_EVENT_H
#define EMU_EVENT_H

#include "stream.h"

/* One record. Events forget it when they are recorded again; streams that still have to make it hold it. */
struct stamp {
    atomic_uint refs;
    struct mark at;
    atomic_ullong ns; /* when; 0: not yet */
};

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    pthread_mutex_t lock;
    struct stamp *stamp;            /* NULL: never recorded */
    struct capture_point *captured; /* recorded in a capture; under the lock of capture.c */
};

/* A new record that is not entered anywhere yet, held once. */
struct stamp *stamp_new(void);
struct stamp *stamp_hold(struct stamp *t);
void stamp_release(struct stamp *t);
/* The event's last record is this one, at that point; it takes over both holds. */
void event_set(CUevent e, struct stamp *t);
/* Records the event in the stream, or in the capture it is under. */
CUresult event_record(CUstream s, CUevent e, unsigned flags);
/* The event's last record, held; NULL: never recorded. */
struct stamp *event_last(CUevent e);
/* It is made now, in a running operation. */
void stamp_run(struct stamp *t, struct emu_launch *r);
/* Waits for it, in a running operation of a graph. */
void stamp_await(const struct stamp *t, struct emu_launch *r);

#endif
