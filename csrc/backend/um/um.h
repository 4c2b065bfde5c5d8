/* Managed memory. False: the driver refused. */
#ifndef ULMS_UM_H
#define ULMS_UM_H

#include "backend/pager/pager.h"

/* --- what is brought for a thread of the program, by one of ours (placer.c): the driver may keep a prefetch as long
 * as the program's own work holds a lock --- */

struct um_placing {
    bool unkeep; /* it is not mostly read any more */
    bool waits;  /* as long as patience lasts, but where the program ever closed a gate, which may be what keeps it */
};
/* Brings memory that is about to be used to the device. What comes later than that is told to the engine, too. Without
 * the lock. */
void um_place(struct pager *d, addr_t start, uint64_t bytes, struct um_placing how);
/* Bytes that the driver may still bring, though pages leave already. Under the lock. */
uint64_t um_still_comes(const struct pager *d);
/* The context is about to go: waits until nothing is brought in it. Under the lock. */
void um_placer_leave(struct pager *d, CUcontext going);
/* Joins the thread, after PHASE_STOPPING. Without the lock. */
void um_placer_stop(struct pager *d, uint64_t until_ns);

/* --- the driver's calls --- */

/* device: CUDA ordinal, or DEVICE_NONE for the host. */
bool um_prefetch(addr_t start, uint64_t bytes, int32_t device, CUstream stream);
/* The content is lost, until the next write. Only where the driver can, as far as is known. */
bool um_can_discard(void);
bool um_discard(addr_t start, uint64_t bytes, CUstream stream);
bool um_advise_mostly_read(addr_t start, uint64_t bytes, int32_t device, bool mostly);
/* The device uses what lies on the host there, and does not bring it by touching it. */
bool um_advise_in_place(addr_t start, uint64_t bytes, int32_t device, bool in_place);

#endif
