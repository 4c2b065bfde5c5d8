/* Memory of the backend's in the place of plain memory. */
#ifndef ULMS_PROVIDE_H
#define ULMS_PROVIDE_H

#include "interpose/account/memory.h"
#include "interpose/replace/deferred_free.h"

/* True when the call is answered, by c->status: *dptr is the backend's memory, or the limit of managed memory that the
 * user set refuses. False: plain memory is what the program gets, from the real call. */
bool provide(struct charge *c, enum memory_kind kind, uint64_t bytes, CUdeviceptr *dptr);
/* The same for memory in the order of a stream: what was freed in it may be what the program gets, still in use. */
bool provide_in_order(struct charge *c, uint64_t bytes, struct stream_order order, CUdeviceptr *dptr);
/* The current context, if memory of so many bytes may be the backend's there; else 0. For who charges it himself:
 * before that. */
uint64_t provide_context(int device, uint64_t bytes);
/* Memory of the backend's that is not charged, on the current context's device: the caller's to enter, and to free.
 * False: there is none. */
bool provide_addresses(addr_t *start, uint64_t bytes, int device);
/* True: the memory is so small, and so little of the device is plain as yet, that it had better stay plain: many
 * operations use what is small, little is won by moving it, and the driver takes microseconds longer to issue a memset,
 * or a copy of the host's, where it is managed. */
bool provide_stays_plain(uint64_t bytes);
/* Bytes of rows as the driver pitches them; UINT64_MAX: more than there are numbers for. */
uint64_t provide_pitched(uint64_t width, uint64_t height);
bool provide_pitch(struct charge *c, CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element);

/* True for memory that was provided; false for plain memory and for what the program asked to be managed. */
bool provided(const struct allocation *a);
/* The allocation that holds the address, if it was provided. */
bool provided_at(addr_t address, struct allocation *out);
/* The same once the process ends and nothing is recorded any more. */
bool provided_before(addr_t address, struct allocation *out);
/* Bytes of the device that this process could have in all, as the driver saw it when the process had no managed memory
 * there; 0: not known. From then on the driver tells where pages are, not what is allocated. */
uint64_t provide_room(int device);
/* Bytes of the device that the backend holds: what the driver says is free lacks them. */
uint64_t provide_held(int device);

#endif
