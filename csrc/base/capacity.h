/* How much of a device the program may use. */
#ifndef ULMS_CAPACITY_H
#define ULMS_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that the program is shown and limited to: ULMS_GPU_MEMORY, or if that is less what its group may hold; 0: not
 * set, the device's own size counts. */
uint64_t capacity_of(int device);
/* Its group is limited: what is free is what the group has left, whoever holds the device's memory just now. */
bool capacity_is_group(int device);
/* Bytes that others of its group have allocated. */
uint64_t capacity_others(int device);
/* Its group may hold so many bytes from now on (0: no limit), and others of it have allocated so many. */
void capacity_group(int device, uint64_t bytes, uint64_t others);
/* Bytes that its memory may occupy now, at most capacity_of; 0: not set. */
uint64_t capacity_granted(int device);
/* From now on; 0: capacity_of again. */
void capacity_grant(int device, uint64_t bytes);
/* The same by who leaves room for contexts itself. */
void capacity_lease(int device, uint64_t bytes);
/* Per cent of it that pages may occupy. */
int capacity_factor(int device);

#endif
