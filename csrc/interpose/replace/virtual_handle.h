/* Handles of ours in the place of the driver's (cuMemCreate): behind such a handle is memory of the backend's, which
 * may move. Where the backend can put memory at addresses that the program chose, any handle may be ours (own.h). Where
 * memory has its addresses from the start, a program names them only later: then a handle is ours if the library that
 * makes it reserves addresses of just its size next, on the same thread, and maps it there alone, as XLA does. Where it
 * turns out to be for others, the driver makes its memory after all.
 *
 *   space   addresses that the program reserved, with memory of the backend's */
#ifndef ULMS_VIRTUAL_HANDLE_H
#define ULMS_VIRTUAL_HANDLE_H

#include "interpose/account/memory.h"

struct space;
struct promise;

struct virtual_handle {
    CUmemAllocationProp prop;
    uint64_t bytes;
    struct charge *charge;             /* of the handle */
    CUmemGenericAllocationHandle real; /* the driver's, once it had to make the memory; 0: it did not */
    bool mapped;                       /* its memory is where it lies, as the program sees it */
    struct space *space;               /* that holds its memory; NULL: none does */
    bool lost;                         /* the program gave the space back, and kept a handle */
    struct promise *promise;           /* own.c: its memory, as long as it lies nowhere */
    addr_t at;                         /* own.c: where it lies; 0: nowhere */
    uint8_t access[DEVICE_MAX];        /* own.c: what the program allowed there, by device */
};

/* A handle that the thread makes may be ours. */
bool virtual_handle_may_be(void);
/* Says once that memory of the program's own does not move with this backend, and what to do. */
void virtual_handle_tell_still(int device);
/* True: the call that makes a handle is answered by c->status, which is charged as managed memory on success; *s is
 * then what the handle stands for. False: the driver is to make it. */
bool virtual_handle_open(struct charge *c, struct virtual_handle **s, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags);
/* Neither a handle nor a mapping is left. The space stays the program's. */
void virtual_handle_close(struct virtual_handle *s);
/* The driver makes the memory now, if it has not. NOT_SUPPORTED: it has been used where it cannot be taken from. */
CUresult virtual_handle_make(struct virtual_handle *s);
/* True: the mapping is answered by *status. False: the driver is to map s->real. */
bool virtual_handle_map(struct virtual_handle *s, CUdeviceptr ptr, size_t size, size_t offset, unsigned long long flags,
                        CUresult *status);
/* True: the addresses are a space, and *status answers. */
bool virtual_handle_unmap(CUdeviceptr ptr, size_t size, CUresult *status);
/* True: the program has reserved a space, as the thread's latest handle is of that size. */
bool virtual_handle_reserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                            unsigned long long flags);
/* The driver has reserved addresses. More than the device has memory are for whatever comes. */
void virtual_handle_reserved(size_t size);
/* The program gives addresses back. True: they were a space, which is gone with its memory, and *status answers. */
bool virtual_handle_free(CUdeviceptr ptr, size_t size, CUresult *status);
/* The context is gone, and with it what spaces had of it. */
void virtual_handle_forget(uint64_t context);

#endif
