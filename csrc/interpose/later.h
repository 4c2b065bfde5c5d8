/* Frees in stream order of memory that the driver can only free at once: the program goes on, the memory waits for its
 * last use. The real free would wait for all the device does, and every other call for it; so it is made where the
 * program has just waited, or where the limit of managed memory is short. */
#ifndef ULMS_LATER_H
#define ULMS_LATER_H

#include "interpose/memory.h"

/* Provided memory, out of the ledger, is freed behind what the stream holds now. False: the caller frees it at once. */
bool later_free(const struct allocation *gone, int variant, CUstream stream);
/* Memory that waits, is as large in pages and is not used any more, becomes what *c charges: as provide. */
bool later_reuse(struct charge *c, int device, enum memory_kind kind, uint64_t bytes, CUdeviceptr *dptr);
/* The program waited for the whole context, or (0) for a stream or an event: frees what is not used any more; in the
 * second case only when it is worth disturbing the rest of the device. */
void later_waited(uint64_t whole_context);
/* Waits for the last uses, and frees all. */
void later_free_all(void);
/* The context is gone, with all its memory. */
void later_forget(uint64_t context);

#endif
