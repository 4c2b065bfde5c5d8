/* How long a thread of the program waits for what it would not wait for without us. Each wait of ours on such a thread
 * goes through this file (tests/unit/test_waits.py), so that each has a bound. */
#ifndef ULMS_PATIENCE_H
#define ULMS_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A wish ends after so long without progress: while a gate is closed, and else. It ends after so many times that with
 * progress, too. */
#define PATIENCE_GATED_NS 100000000ull
#define PATIENCE_NS       2000000000ull
enum { PATIENCE_GATED_TIMES = 2, PATIENCE_TIMES = 5 };
/* No need lasts longer; nor does a wait in the driver's stead. */
#define PATIENCE_MOST_NS  10000000000ull
#define PATIENCE_STEAD_NS 60000000000ull

enum patience_for {
    /* The program can do without: pages that come, memory that is freed. It is over where a jump is put off. Time that
     * a wish took in vain is owed. Later wishes are shorter by what is owed, of which a twentieth of the time since
     * pays. So a program that stalls again and again pays for one stall, and a twentieth of its time at most after
     * that. */
    PATIENCE_WISH,
    /* It cannot, and the driver alone ends it: content that is just being discarded, pages that are just being mapped.
     */
    PATIENCE_NEED,
    /* The driver would wait in the same place without us. */
    PATIENCE_STEAD,
    /* Others have the GPU, as they would without us: it lasts as long as their turns, but for a jump that is put off.
     */
    PATIENCE_TURN,
};

/* One wait. All 0: a wish that has not begun. */
struct patience {
    enum patience_for what;
    uint64_t most_ns; /* it lasts no longer; 0: it has no bound of its own */
    uint64_t began_ns, resumed_ns;
    int tries;
};

/* How many nanoseconds it may still last, if something got done at progress_ns last (0: that is not known). 0: it is
 * over; the next call would begin anew. */
__attribute__((warn_unused_result)) uint64_t patience_left(struct patience *p, uint64_t progress_ns);
/* The thread that waits was to sleep until then. Had it no processor for long after that, the process was stopped (a
 * terminal, a debugger, a container that is paused), and so was what it waits for: that time does not count. */
void patience_slept(struct patience *p, uint64_t until_ns);
/* Sleeps for a moment: also where the wait is over, the first few times. False: it is over. */
__attribute__((warn_unused_result)) bool patience_rest(struct patience *p);
/* A wish would be over as soon as it began. */
bool patience_gone(void);

/* So many more operations, or fewer, gate what is behind them: they wait for what the host does, and that may be what
 * the waiting thread would do next. */
void patience_gates(int more);
bool patience_gated(void);

#endif
