/* What the driver's pools, and the graphs that allocate, hold of each device. The driver tells, and that is charged:
 * memory freed in stream order stays with a pool until the stream has come there, and longer. */
#ifndef ULMS_RESERVED_H
#define ULMS_RESERVED_H

#include "driver.h"
#include "types.h"

/* Memory comes from this pool of the device's, which the driver makes larger as it needs. */
void reserved_know(int device, CUmemoryPool pool);
/* It is about to be destroyed: nobody asks for it meanwhile. It was, or was not. */
void reserved_leaves(CUmemoryPool pool);
void reserved_left(CUmemoryPool pool, bool gone);
/* It gave the program memory at an address; the program's free of it was issued. */
void reserved_gave(CUmemoryPool pool, addr_t start, uint64_t bytes);
void reserved_freed(addr_t start, uint64_t bytes);
/* Graphs that allocate run on the device. */
void reserved_know_graphs(int device);
/* Charges the device what the driver says now. */
void reserved_look(int device);
/* The same, where the driver held something when it was asked last. waited: the program has just waited for all that
 * the current context had to do. */
void reserved_look_again(int device, bool waited);
/* Bytes that the driver holds for graphs now. */
uint64_t reserved_by_graphs(int device);
/* What pools and graphs hold without use goes back to the device, as far as nothing in flight uses it. */
void reserved_give_back(int device);
/* Plain bytes are promised. Before that is refused, what the driver holds without use goes back to the device; where
 * the driver itself would wait for frees in flight, or another thread may not get what it was promised, this waits. */
bool reserved_make_room(int device, enum memory_kind kind, uint64_t bytes);
/* Bytes that the pool holds and no allocation has, for the driver and in whole grains: one of so many may find room. */
uint64_t reserved_unused(CUmemoryPool pool);

#endif
