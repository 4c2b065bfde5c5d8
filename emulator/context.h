/* Contexts, the stack of them each thread has, and what else a thread keeps. */
#ifndef EMU_CONTEXT_H
#define EMU_CONTEXT_H

#include "call.h"
#include "device.h"

struct CUctx_st {
    struct device *device;
    unsigned flags;
    unsigned retains;  /* of a primary context */
    unsigned attached; /* references beside the one of its maker */
    atomic_bool alive;
    atomic_int error;  /* sticky: what every call answers once an operation has failed */
    atomic_uint peers; /* bit n: may use plain memory of device n */

    /* The driver's locks, as far as they decide who is stuck behind whom.
     * lock: every call passes it; a call that waits for all work of the context, like a free, holds it meanwhile.
     * launch: held while an operation enters a stream, also while that blocks because the stream is full. */
    pthread_mutex_t lock, launch;

    pthread_mutex_t streams_lock; /* guards both lists */
    CUstream streams, leaving;    /* leaving: destroyed, with work that is not done */
    CUstream legacy;
    atomic_uint captures; /* under way in streams that the legacy stream waits for */
};

/* What one thread of the program keeps. */
struct thread {
    CUcontext stack[32];
    unsigned depth;
    CUstreamCaptureMode capture_mode;
    unsigned calls;       /* that it is inside of; only kept where other processes share the devices */
    bool in_callback;     /* inside a host function: calls are not permitted */
    uint64_t entered;     /* when its last call began, ns; only kept when calls cost time */
    double debt;          /* what its calls have yet to take, ns; negative: they took too long */
    CUstream defaults[8]; /* its per-thread default streams, held alive */
};

struct thread *thread_self(void);
CUcontext context_current(void);

/* An operation failed: every later call answers this. The first error stays. */
void context_poison(CUcontext c, CUresult error);

/* Waits for all work issued so far in the context. Its sticky error, or CUDA_SUCCESS. */
CUresult context_wait(CUcontext c);
/* The same while holding the context's lock, as the driver's free does; returns with it held. */
void context_drain(CUcontext c);

/* True after a fork in a process that had called cuInit. */
bool process_forked(void);
bool process_open(void);

#endif
