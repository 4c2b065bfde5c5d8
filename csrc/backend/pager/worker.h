/* A thread of ours: its start and its end. */
#ifndef ULMS_PAGER_WORKER_H
#define ULMS_PAGER_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct pager_worker {
    pthread_t thread;
    bool running;
};

/* What pager_give_up says where our calls could spoil a capture. */
#define PAGER_UNRELAXED "the driver refuses cuThreadExchangeStreamCaptureMode"

#define PAGER_GATED_NS 50000000ull
#define PAGER_JOIN_NS  2000000000ull
#define PAGER_MOVED_NS 10000000000ull

/* Whatever it calls spoils no capture. NULL: it runs; else why it does not. */
const char *pager_worker_start(struct pager_worker *w, const char *name, void *(*run)(void *), void *data);
/* Waits until it ends. False: a thread that the driver keeps until clock_ns() is so much is left to the end of the
 * process, which is told. */
bool pager_worker_join(struct pager_worker *w, uint64_t until_ns);

#endif
