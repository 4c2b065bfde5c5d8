/* The threads of a device: who moves pages, and who watches. */
#ifndef ULMS_PAGER_WORKER_H
#define ULMS_PAGER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "driver.h"

struct pager;

struct pager_worker {
    pthread_t thread;
    bool running;
};

/* A context of ours, for movers. */
struct pager_own {
    CUcontext context; /* NULL: none */
    bool asked;
};

struct pager_mover {
    struct pager_worker worker;
    struct pager *device;
    struct pager_own *own; /* NULL: it issues into the program's */
    int lane;
    struct pager_move *first; /* that it was started for; NULL: none */
};

/* Moves of held policies that wait for the mover that was woken for them. */
struct pager_lane {
    pthread_cond_t work;
    int idle;        /* movers that wait, and that no move is ready for */
    int to_start;    /* movers that were not needed yet */
    unsigned chosen; /* movers that wait though one is ready: woken once the lock is free, as they want it */
    struct pager_move *first, **last;
};

/* What pager_give_up says where our calls could spoil a capture. */
#define PAGER_UNRELAXED "the driver refuses cuThreadExchangeStreamCaptureMode"

/* Whatever it calls spoils no capture. NULL: it runs; else why it does not. */
const char *pager_worker_start(struct pager_worker *w, const char *name, void *(*run)(void *), void *data);
/* Its movers; NULL: one of each lane runs. Under the lock. */
const char *pager_movers_start(struct pager *d);
/* The watcher's: one more for each lane in which a move waits. Threads are the program's to have: where it may have no
 * more, those that there are do all. Under the lock, which is released meanwhile. */
void pager_movers_start_more(struct pager *d);
/* Idle movers get the moves that can be made now. Under the lock. */
void pager_hand_out(struct pager *d);
/* Until what was issued before `moving` is done: the drainer's, of the device. */
void *pager_drain(void *device);
/* A thread of ours has nothing to do. Under the lock. */
void pager_worker_sleep(struct pager *d, pthread_cond_t *until);
#define PAGER_GATED_NS 50000000ull
#define PAGER_JOIN_NS  2000000000ull
#define PAGER_MOVED_NS 10000000000ull
/* Where moves can be issued, at worst; NULL: nowhere. Under the lock. */
CUcontext pager_context(const struct pager *d);
/* In so many nanoseconds, for the next. */
struct timespec pager_soon(uint64_t ns);
/* Waits until it ends. False: a thread that the driver keeps until then is left to the end of the process, which is
 * told. */
bool pager_worker_join(struct pager_worker *w, const struct timespec *until);
/* Those that are needed at once; the watcher starts the others as moves wait. Under the lock. NULL: they run; else why
 * one does not. */
const char *pager_workers_start(struct pager *d);
/* Moves that no mover has begun are none. Under the lock. */
void pager_take_back(struct pager *d);
/* Joins them, after PHASE_STOPPING, until `moved`, as on a busy machine it may be long until a thread runs; who waits
 * for work of the program's, which may never end, until `soon`. Without the lock. */
void pager_workers_stop(struct pager *d, const struct timespec *soon, const struct timespec *moved);

#endif
