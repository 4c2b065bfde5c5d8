/* What processes on the same devices have in common: memory, the link, and turns of their kernels. It is in the file
 * EMU_SHARED; without one a process is alone. What a process held is free again when it has ended, however it did. */
#ifndef EMU_SHARED_H
#define EMU_SHARED_H

#include "device.h"

#include <stdbool.h>
#include <stdint.h>

/* Of one device, by all processes: bytes held, and the most they ever held; of these, in pages of managed memory that
 * were not discarded. */
struct shared_memory {
    uint64_t used, most, pages, pages_most;
};

/* A slice of a device's time: whose it is (-1: nobody's), since when, and when what was begun in it ends. */
struct shared_turn {
    int owner;
    uint64_t began, ends;
};

/* CLOCK_MONOTONIC, ns. */
struct shared_time {
    uint64_t link_free[2]; /* in and out */
    struct shared_turn turn[DEVICES_MAX];
};

/* Maps the file; the process ends if that fails. Once, by cuInit. */
void shared_open(void);
/* This process holds so many bytes more of the device, unless all together would then hold more than `of`. */
bool shared_take(int device, uint64_t bytes, uint64_t of);
void shared_give(int device, uint64_t bytes);
/* So many of these bytes more, or fewer, are in pages of managed memory that were not discarded. */
void shared_change_pages(int device, int64_t bytes);
struct shared_memory shared_memory(int device);

/* What a process that checkpoints this one looks at and changes (checkpoint.c). */
struct shared_life {
    atomic_int state;         /* CUprocessState */
    atomic_uint calls;        /* under way */
    atomic_ullong operations; /* that have not ended */
    atomic_uint managed;      /* allocations */
    atomic_uint on_host;      /* handles of host memory: with any of them it does not come back */
    atomic_bool stuck;        /* it could not be restored once */
};

/* There is a file: other processes may come at any time. */
bool shared_with_others(void);
/* Nobody else, in any process, has it until it is given back. */
struct shared_time *shared_time_take(void);
void shared_time_give(void);
/* Under it: the number of this process; that it waits since `ns` (0: no more) for the device's next slice; and who
 * waits longest, -1 if nobody does. */
int shared_self(void);
void shared_want(int device, uint64_t ns);
int shared_next(int device);

/* --- checkpoints --- */

/* Of this process; nobody looks at it while there is no file. */
struct shared_life *shared_life(void);
/* NULL: no such process is here. */
struct shared_life *shared_life_of(int pid);
/* The memory that it holds of all devices is free, and it is checkpointed; or is held again, if none then has more than
 * `of` in use, and it is locked. False: it is as it was. */
bool shared_let_go(int pid);
bool shared_hold_again(int pid, uint64_t of);
/* This process is checkpointed, and perhaps restarted. */
bool shared_is_away(void);

#endif
