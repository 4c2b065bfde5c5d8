/* How much of a device the program may use. */
#ifndef ULMS_CAPACITY_H
#define ULMS_CAPACITY_H

#include <stdint.h>

/* Bytes that the program is shown and limited to: ULMS_GPU_MEMORY; 0: not set, the device's own size counts. */
uint64_t capacity_of(int device);
/* Bytes that its memory may occupy now, at most capacity_of; 0: not set. */
uint64_t capacity_granted(int device);
/* From now on; 0: capacity_of again. */
void capacity_grant(int device, uint64_t bytes);
/* The same by who leaves room for contexts itself. */
void capacity_lease(int device, uint64_t bytes);
/* Per cent of it that pages may occupy. */
int capacity_factor(int device);

#endif
