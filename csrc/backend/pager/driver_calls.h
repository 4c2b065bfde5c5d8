/* The driver's calls that every backend needs. Refused ones are counted; the program never sees it. */
#ifndef ULMS_PAGER_DRIVER_CALLS_H
#define ULMS_PAGER_DRIVER_CALLS_H

#include "driver/capture.h"

/* Whether it was done; counted and told where it was not: what, and of how many bytes. */
bool pager_done(CUresult status, const char *what, uint64_t bytes);
/* False: it has not, or the driver does not tell. */
bool pager_device_has(CUdevice_attribute attribute, int32_t device);
CUstream pager_stream_new(void);
/* Waits for all that is in a stream of ours. */
bool pager_stream_finish(CUstream stream);
/* A context of ours, current afterwards. NULL: refused. */
CUcontext pager_context_new(int32_t device);
/* Of all its memory; 0: the driver does not tell. */
uint64_t pager_device_bytes(int32_t device);
/* On a thread of the program: our calls see the context, and spoil no capture if capture_allows them. pager_leave
 * undoes it. */
struct pager_visit {
    struct relaxed relaxed;
    bool entered;
    CUcontext before;
};
struct pager_visit pager_enter(CUcontext context);
void pager_leave(struct pager_visit v);
/* The calling thread's context. */
CUcontext pager_current(void);

#endif
