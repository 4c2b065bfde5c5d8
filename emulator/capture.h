/* Streams under capture: what they are given becomes nodes of a graph.
 *
 * The functions that take *result return false when capture does not concern the call, which then goes on as usual;
 * true when it was answered, with *result. */
#ifndef EMU_CAPTURE_H
#define EMU_CAPTURE_H

#include "event.h"

/* Takes work over for a capturing stream. Work on the legacy stream that would have to wait for a capturing one fails.
 */
bool capture_takes(CUstream s, struct work *w, CUresult *result);
/* An event is recorded in the stream. */
bool capture_records(CUstream s, CUevent e, bool external, CUresult *result);
/* The stream is to wait for the event: it may join the capture in which that was recorded. */
bool capture_waits(CUstream s, CUevent e, bool external, CUresult *result);
/* Memory is allocated (*address: where it will be) or freed in the stream. */
bool capture_allocates(CUstream s, const CUDA_MEM_ALLOC_NODE_PARAMS *params, CUdeviceptr *address, CUresult *result);
bool capture_is_on(CUstream s);

/* The event was last recorded in a capture: nobody can wait for it. */
bool capture_holds_event(CUevent e);
void capture_forget_event(CUevent e);

/* The calling thread may not make an unsafe call now; the captures that forbid it are lost. */
bool capture_forbids(void);
/* Somebody wants to wait for the context (for the stream): its captures are lost. True: there were some. */
bool capture_stops_wait(CUcontext c);
bool capture_stops_stream_wait(CUstream s);
/* The stream goes: its capture is lost. */
void capture_loses_stream(CUstream s);

struct capture_info {
    CUstreamCaptureStatus status;
    uint64_t id;
    CUgraph graph;
    struct tail tail; /* the stream's own, until its next operation */
};

/* g: the graph to add to, after these nodes; NULL: a new one. */
CUresult capture_begin(CUstream s, CUgraph g, const CUgraphNode *after, size_t n, CUstreamCaptureMode mode);
CUresult capture_end(CUstream s, CUgraph *out);
void capture_info(CUstream s, struct capture_info *out);

#endif
