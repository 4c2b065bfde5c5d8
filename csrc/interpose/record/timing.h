/* Device time of operations, for the trace: an event before and one after each, read by a thread of ours. Costs a few
 * microseconds an operation and keeps kernels from overlapping at their edges; only while tracing. */
#ifndef ULMS_TIMING_H
#define ULMS_TIMING_H

#include "launch/op.h"

void timing_start(void);
/* Around the real call, on the issuing thread. Never for a captured operation. */
void timing_before(struct op *op);
void timing_after(struct op *op);
/* Reads what has retired, joins the thread. */
void timing_stop(void);

#endif
