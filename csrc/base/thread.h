/* What each program thread keeps for itself, so that recording shares nothing: scratch for touches, a trace ring,
 * its slot of counters. Made on the thread's first recorded operation, given back when the thread ends. */
#ifndef ULMS_THREAD_H
#define ULMS_THREAD_H

#include "base/near.h"

/* A launch's arguments are at most 32 764 bytes: 4 095 pointers. */
enum { TOUCH_MAX = 4095, LISTED_MAX = 32 };

/* Large buffers of the thread's, since a wrapper may take 4 KiB of the program's stack at most. Each has one user at a
 * time: whoever calls another with the same one in use loses its content. */
enum scratch {
    SCRATCH_READ,  /* what is read of the program's memory */
    SCRATCH_FOUND, /* the addresses found there */
    SCRATCHES,
};
enum { SCRATCH_BYTES = 32 << 10 };

struct ring;   /* observe/ring.h */
struct within; /* driver/within.h */

/* The library call the thread is inside, and what it told of the memory it touches (library/call.h). What arguments
 * point at lies at the front of `touches`, what device memory points at lies at its end. */
struct call {
    bool open;
    const char *frame; /* of the function that opened it */
    bool carried;      /* a launch has recorded all of it */
    bool hides;        /* it uses addresses that are not known */
    bool unread;       /* it tells nothing */
    bool together;     /* its kernels are one operation */
    bool whole;        /* they use nothing of the program's beside what it told */
    uint16_t api;      /* enum api (generated) */
    uint32_t front, back;
    uint32_t shown;        /* of those in the list, a bit for each that the launch under way shows */
    uint32_t listed;       /* of those at the front, so many are in the list (launch/call_extents.c) */
    addr_t low, size;      /* device addresses are in [low, low + size) */
    struct near starts;    /* of those at the front */
    struct touch *touches; /* TOUCH_MAX */
    addr_t given[LISTED_MAX];
    uint64_t reach[LISTED_MAX]; /* bytes from there to the end */
};

/* Trap: on Arm the loader opens no library that asks for more. */
#ifdef __x86_64__
enum { THREAD_ALIGNED = 64 };
#else
enum { THREAD_ALIGNED = 16 };
#endif

/* Its first line of the cache is all that a launch reads, found without following a pointer. */
struct thread {
    _Alignas(THREAD_ALIGNED) struct touch *touches; /* TOUCH_MAX; NULL: the thread is not known yet */
    uint32_t id;                                    /* small number, from 1 */
    uint32_t inside;                                /* > 0: inside one of our wrappers; a nested call passes through */
    struct ring *ring;                              /* NULL until something is traced */
    uint64_t *counts;      /* its own counters (observe/stats.c); NULL: none yet, or shared ones */
    uint32_t slot;         /* where they are; 0: shared */
    uint16_t sections;     /* that it is in (base/lock.h) */
    bool jumps;            /* when it has left the last of them (base/jump.h) */
    struct within *within; /* on the stack of the wrapper that it is in; NULL: in none */
    struct call call;
};

extern __thread struct thread thread_here;
struct thread *thread_enter(void);
/* NULL when there is no memory for it: the caller then passes through. */
static inline struct thread *thread_self(void) {
    return __builtin_expect(thread_here.touches != NULL, 1) ? &thread_here : thread_enter();
}
/* SCRATCH_BYTES; NULL: there is no memory. */
void *thread_scratch(enum scratch which);

/* What to do on a thread that ends, before what it keeps goes. A thread that calls CUDA from a later destructor is a
 * new one, which ends in turn. */
struct thread_end {
    void (*run)(struct thread *t);
    bool first; /* before what is not */
    struct thread_end *next;
};
/* Once for each e, which lives as long as the library. */
void thread_at_end(struct thread_end *e);

/* The order of events in the process: 1, 2, 3... */
uint64_t serial_next(void);
/* CLOCK_MONOTONIC, ns. */
uint64_t clock_ns(void);
/* Microseconds, on a thread of ours: one of the program's rests by base/patience.h. */
void thread_sleep(long us);
/* Lets other threads run before one looks again, for the so manieth time from 0, for what they do. */
void thread_give_way(int tries);

/* In the child of a fork: the other threads are gone. */
void thread_fork_child(void);

#endif
