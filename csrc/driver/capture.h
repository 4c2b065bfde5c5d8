/* Stream captures: what is issued into one does not run, and nothing of ours may land in it. */
#ifndef ULMS_CAPTURE_H
#define ULMS_CAPTURE_H

#include "driver.h"
#include "launch/op.h"

/* True while any stream of the process captures. */
extern int captures_open; /* counted before they begin */
static inline bool capture_any(void) {
    return __atomic_load_n(&captures_open, __ATOMIC_RELAXED) > 0;
}
/* True: none is under way, and none begins before a call that comes next has entered the driver; it would spoil the
 * capture. Once that call is over, capture_let_begin or capture_restore says so. */
bool capture_keep_off(void);
void capture_let_begin(void);
/* On a thread that is about to allocate, free, query or wait for us: another one's capture is spoiled by whoever does
 * that and has not said that he knows. capture_restore undoes it. */
struct relaxed {
    bool on; /* false: the driver refused */
    CUstreamCaptureMode before;
};
struct relaxed capture_relax(void);
void capture_restore(struct relaxed r);
/* Whether such a call may come next. One that waits for a whole context spoils captures all the same. */
static inline bool capture_allows(struct relaxed r) {
    return r.on || capture_keep_off();
}
/* Whether this thread began one that goes on. */
bool capture_mine(void);
/* True when operations issued into the stream are captured, or may be: then nothing of ours may land there. */
bool capture_holds(uint64_t stream);
/* The same; false where the driver does not say. */
bool capture_is_said(uint64_t stream);
/* One that began and did not end. */
struct capture {
    uint64_t stream, context; /* the stream's own, whatever context is current */
    const void *thread;       /* that began it */
    struct capture *next;
};
/* Before the program's call: the capture counts from now on. It waits for calls of ours that keep captures off. */
struct capture capture_begins(int variant, CUstream stream);
/* After it: lists the capture, or counts it no more. Returns status. */
CUresult capture_begun(CUresult status, struct capture new);
/* The stream's, listed no more; NULL: there is none. What follows is capture_put_back, or capture_over. */
struct capture *capture_take(uint64_t stream);
void capture_put_back(struct capture *c);
void capture_over(struct capture *c);
/* Whether the stream captures still, or the driver does not tell. */
bool capture_goes_on(uint64_t stream);
/* The context is gone, with what captured in it. */
void capture_forget(uint64_t context);
/* The captured operation became the stream's newest node: keep its touches with the node. Extents are known best now:
 * a framework gives back the blocks of a capture before the graph is instantiated. */
void capture_note(const struct op *op);

#endif
