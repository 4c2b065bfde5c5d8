/* Whether a thread is in a wrapper already when it calls one: in a handler of a signal that interrupted it, or in what
 * such a handler ended the process with. It may hold any lock of ours, so the driver's function alone is called. */
#ifndef ULMS_WITHIN_H
#define ULMS_WITHIN_H

#include "base/thread.h"

/* On the stack of the wrapper. A jump out of a handler leaves the thread's pointer to it behind, while other calls
 * overwrite it: then it is not `whole` any more. */
struct within {
    uint64_t whole;
};
#define WITHIN_WHOLE 0x77697468696e2e2eull

/* The thread is in a wrapper of the driver's, or in a library's. */
static inline bool within_any(void) {
    return thread_here.within || thread_here.inside || thread_here.call.open;
}
/* The session begins: once. */
void within_watch(void);
/* Whether it still is. Where a jump has left one behind, what that one counted is taken back. */
bool within_still(struct within *now);
static inline void within_begin(struct within *now) {
    *(volatile uint64_t *)&now->whole = WITHIN_WHOLE;
    thread_here.within = now;
}
/* The wrapper begins. False: the thread is in one. */
static inline bool within_enter(struct within *now) {
    if (__builtin_expect(thread_here.within || thread_here.inside, 0) && within_still(now))
        return false;
    within_begin(now);
    return true;
}
static inline void within_leave(struct within *now) {
    *(volatile uint64_t *)&now->whole = 0;
    thread_here.within = NULL;
}

#endif
