/* What things cost in time, after an H200. With EMU_TIME=0, the default, nothing costs anything and nobody sleeps. */
#ifndef EMU_COST_H
#define EMU_COST_H

#include "run.h"

enum rate {
    RATE_LINK,          /* bytes per ns, each way */
    RATE_LINK_BOTH,     /* in sum, both ways at once */
    RATE_DEVICE,        /* bytes per ns of device memory */
    RATE_IN_PLACE,      /* bytes per ns, a kernel over the link, reading or writing */
    RATE_IN_PLACE_BOTH, /* each way, reading and writing */
    RATE_FAULT,         /* bytes per ns brought by faults */
    RATE_EVICT,         /* bytes per ns moved out to make room */
    RATE_PREFETCH,      /* bytes per ns of the transfer itself, to a device */
    RATE_PREFETCH_HOST, /* to the host */
    RATE_PREFETCH_BOTH, /* in sum, both ways at once */
    RATE_COPY,          /* ns per copy, besides its bytes */
    RATE_LAUNCH,        /* ns per launch, in the calling thread */
    RATE_PREFETCH_CALL, /* ns in the calling thread, when anything moves */
    RATE_PREFETCH_IN,   /* ns per byte of page work in the calling thread */
    RATE_PREFETCH_OUT,
    RATE_PREFETCH_RESIDENT_CALL, /* ns in the calling thread, anyway */
    RATE_PREFETCH_RESIDENT,      /* ns per byte that is there already */
    RATE_DISCARD,                /* ns per byte, in the calling thread */
    RATE_DISCARD_AND_PREFETCH,
    RATE_ADVISE_HOST, /* ns per byte on the host whose advice changes */
    RATES
};

double rate(enum rate r);

enum vmm_call {
    VMM_CREATE,
    VMM_MAP,
    VMM_ACCESS,
    VMM_UNMAP,
    VMM_RELEASE,
    VMM_CREATE_HOST,
    VMM_MAP_HOST,
    VMM_ACCESS_HOST,
    VMM_UNMAP_HOST
};

/* ns of a call on one handle of so many bytes. */
double cost_vmm(enum vmm_call call, uint64_t bytes);

/* Reads EMU_TIME and the rates' variables. */
void cost_open(void);
bool cost_counts(void);
/* CLOCK_MONOTONIC, ns. */
uint64_t cost_now(void);
/* The calling thread's call takes so long. */
void cost_call(double ns);
/* The prefetch that began at r->clock: when its bytes until now are there, if nothing else crosses the link. */
uint64_t cost_crossed(const struct emu_launch *r);
/* The operation began at r->clock; waits until all that it did would be done on the device, and sets r->clock to that.
 */
void cost_operation(struct emu_launch *r);

#endif
