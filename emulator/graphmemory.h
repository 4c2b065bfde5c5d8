/* What the graphs of a device hold: taken by launches, kept until it is asked back. */
#ifndef EMU_GRAPHMEMORY_H
#define EMU_GRAPHMEMORY_H

#include "plan.h"
#include "stream.h"

/* Before a launch of the plan into the stream: takes what it needs beside those in flight. *round: of the plan's last
 * launch, 0 at first. False: the device has no room. */
bool graph_memory_take(CUstream s, const struct plan *p, uint64_t *round);
/* The launch is before this point. */
void graph_memory_launched(const struct mark *at);
/* Gives back what nobody uses, unless a launch is in flight. */
void graph_memory_trim(struct device *d);

#endif
