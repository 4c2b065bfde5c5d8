/* Handles of ours in the place of the driver's (cuMemCreate): behind such a handle is memory of the backend's, which
 * may move. That has its addresses from the start, and a program names them only later. So a handle is ours where
 * addresses of just its size are reserved next on the same thread, which is how XLA allocates; where it turns out to be
 * for others, the driver makes its memory after all.
 *
 *   space   addresses that the program reserved, with memory of the backend's */
#ifndef ULMS_STAND_IN_H
#define ULMS_STAND_IN_H

#include "interpose/memory.h"

struct space;

struct stand_in {
    CUmemAllocationProp prop;
    uint64_t bytes;
    CUmemGenericAllocationHandle real; /* the driver's, once it had to make the memory; 0: it did not */
    struct space *space;               /* that holds its memory; NULL: none does */
    bool mapped;                       /* there, as the program sees it */
    bool lost;                         /* the program gave the space back, and kept a handle */
};

/* The next handle may be ours, as far as is known: the program has no addresses that wait for several. */
bool stand_in_may_be(void);
/* True: the call that makes a handle is answered by c->status, which is charged as managed memory on success; *s is
 * then what the handle stands for. False: the driver is to make it. */
bool stand_in_open(struct charge *c, struct stand_in **s, size_t size, const CUmemAllocationProp *prop,
                   unsigned long long flags);
/* Neither a handle nor a mapping is left. The space stays the program's. */
void stand_in_close(struct stand_in *s);
/* The driver makes the memory now, if it has not: *c, what was charged for it, is then plain memory's. NOT_SUPPORTED:
 * it has been used where it cannot be taken from. */
CUresult stand_in_make(struct stand_in *s, struct charge *c);
/* True: the mapping is answered by *status. False: the driver is to map s->real. */
bool stand_in_map(struct stand_in *s, struct charge *c, CUdeviceptr ptr, size_t size, size_t offset,
                  unsigned long long flags, CUresult *status);
/* True: the addresses are a space, and *status answers. */
bool stand_in_unmap(CUdeviceptr ptr, size_t size, CUresult *status);
/* The context is gone, and with it what spaces had of it. */
void stand_in_forget(uint64_t context);

#endif
