/* Frees in stream order of memory that the driver can only free at once: the program goes on, the memory waits for its
 * last use. The real free would wait for all that its context does, and every other call for it; so it is made where
 * the program has just waited for that, or where nothing runs there. Until then the backend knows that it is dead. */
#ifndef ULMS_DEFERRED_FREE_H
#define ULMS_DEFERRED_FREE_H

#include "interpose/account/memory.h"

/* The order of a stream, which this variant of a function names so. */
struct stream_order {
    int variant;
    CUstream stream;
};

/* Provided memory, out of the ledger, is freed behind what the stream holds now; *status: what the program gets, on
 * failure it is not freed. keeper: the pool that keeps it for its next use when the program waits, or NULL. False: the
 * caller frees it at once. */
bool deferred_free(const struct allocation *gone, struct stream_order order, CUmemoryPool keeper, CUresult *status);
/* Whether the address is in memory that waits: the program has freed it. */
bool deferred_holds(addr_t p);
/* Memory that waits and is as large in pages becomes what *c charges, as provide: the first in memory that was freed in
 * that order (NULL: there is none), which may still be used, or one that is not used any more. */
bool deferred_reuse(struct charge *c, int device, enum memory_kind kind, uint64_t bytes,
                    const struct stream_order *order, CUdeviceptr *dptr);
/* The program waited for the whole context: frees what is of it and not used any more. Or (0) for a stream or an event:
 * frees much, if that waits for nothing. */
void deferred_waited(uint64_t whole_context);
/* Where the limit of managed memory is short: frees what waits for nothing. */
void deferred_free_unused(void);
/* The pool keeps nothing of what waits: that goes as soon as it is not used any more. */
void deferred_unkeep(CUmemoryPool keeper);
/* Bytes that wait and are kept. */
uint64_t deferred_kept(void);
/* Where an allocation would be refused else: waits for the last use of what was freed first, as the driver's own
 * allocation does, and frees what is of its context and not used any more. False: nothing was freed. Nothing waits, or
 * the last use, or something else in the context, goes on for longer than there is patience. */
bool free_oldest(void);
/* The context is being destroyed, or (false) is not after all: meanwhile no event of it is used. */
void deferred_leaves(uint64_t context, bool leaves);
/* The context is gone, with all its memory. */
void deferred_forget(uint64_t context);

#endif
