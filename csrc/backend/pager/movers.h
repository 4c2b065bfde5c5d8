/* Movers: threads that take moves of held policies. */
#ifndef ULMS_PAGER_MOVERS_H
#define ULMS_PAGER_MOVERS_H

#include "backend/pager/ordered.h"
#include "backend/pager/worker.h"

enum { MOVER_MAX = 8 };

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
    struct condition work;
    int idle;     /* movers that wait, and were woken for no move */
    int to_start; /* movers that were not needed yet */
    struct pager_move *first, **last;
};

struct pager_movers {
    struct pager_mover mover[MOVER_MAX];
    int count; /* so many may run; 0, too, before pages begin to move */
    struct pager_own own[MOVER_MAX];
    struct pager_lane lanes[LANES];
    struct pager_ordered ordered; /* of the policies that need no mover */
};

/* NULL: one of each lane runs, but of an ordered policy. Under the lock. */
const char *pager_movers_start(struct pager *d);
/* The watcher's: one more for each lane in which a move waits. Threads are the program's to have: where it may have no
 * more, those that there are do all. Under the lock, which is released meanwhile. */
void pager_movers_start_more(struct pager *d);
/* Idle movers get the moves that can be made now. Under the lock. */
void pager_hand_out(struct pager *d);
/* Something happened: whoever waits looks again, and idle movers get the moves that can be made now. Under the lock. */
void pager_wake(struct pager *d);
/* Moves may have become possible, and no thread waits for that: the watcher hands them out when it looks next, or this
 * thread does while it sleeps. To wake a mover takes longer than most operations. Under the lock. */
void pager_stir(struct pager *d);
/* Where moves can be issued, at worst; NULL: nowhere. Under the lock. */
CUcontext pager_context(const struct pager *d);
/* After PHASE_STOPPING: moves that no mover has begun are none, and idle movers end. Under the lock. */
void pager_movers_stop(struct pager *d);
/* Joins them. Without the lock. */
void pager_movers_join(struct pager *d, uint64_t until_ns);

#endif
