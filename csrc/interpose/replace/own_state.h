/* What the files of own.h share. */
#ifndef ULMS_OWN_STATE_H
#define ULMS_OWN_STATE_H

#include "backend/backend.h"
#include "base/hash.h"
#include "base/lock.h"
#include "driver/session.h"
#include "interpose/replace/own.h"

/* Addresses that the program reserved, as the driver did: whole pages from a page's start. */
struct reservation {
    addr_t start;
    uint64_t bytes; /* as the program knows it */
    uint64_t whole; /* as the driver does */
    int32_t device; /* whose memory may be put there; DEVICE_NONE: nobody's was */
};

extern struct lock own_lock;   /* of all that follows, and of what virtual handles have of it */
extern struct hash own_placed; /* where its memory lies -> virtual handle */

static inline const struct backend_own *own(void) {
    return session.backend->own;
}

/* All that follows is called under the lock. */

/* NULL: the program has not reserved all of it. */
struct reservation *own_reservation(CUdeviceptr ptr, size_t size);
/* For the program nothing can be mapped there. */
bool own_taken(CUdeviceptr ptr, size_t size);
/* Memory of the device may be put there: the driver's mappings that are there already stay. */
bool own_open(struct reservation *r, int32_t device);
/* Memory has left the address: perhaps nothing keeps its reservation any more. */
void own_left(addr_t at);
/* The driver makes the virtual handle's memory. */
CUresult own_become_real(struct virtual_handle *s);
/* All memory of virtual handles on pages of the range becomes the driver's. */
CUresult own_clear(CUdeviceptr ptr, size_t size);
/* The virtual handle's memory, as long as it lies nowhere, serves again. */
void own_forgo(struct virtual_handle *s);

#endif
