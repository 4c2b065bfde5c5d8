/* The ledger's side of allocations and frees. */
#ifndef ULMS_MEMORY_H
#define ULMS_MEMORY_H

#include "interpose/account/charge.h"
#include "ledger/ledger.h"

/* The allocation is in the ledger, and the backend's where it is managed. False: there is no memory to record it. */
bool memory_enter(struct allocation *a);
/* What left the ledger has really been freed: the device has it back. */
void memory_credit(const struct allocation *gone);

/* A free under way. */
struct dealloc {
    bool recorded;
    struct allocation gone;
};

/* Takes the allocation at start out of the ledger. Before the real free, unlike all else: afterwards the driver may
 * give another thread the same address. */
void dealloc_open(struct dealloc *p, addr_t start);
/* The same for a free in stream order: memory that was provided leaves the backend later. */
void dealloc_open_deferred(struct dealloc *p, addr_t start);
/* The real free returned: on failure the allocation is put back, but the backend does not get it again. Returns status.
 */
CUresult dealloc_close(const struct dealloc *p, CUresult status);

/* Managed memory that left the ledger was freed in stream order; `unused`: what was issued before has run. False: to be
 * told so once more. */
bool memory_free_deferred(const struct allocation *gone, bool unused);
/* It leaves the backend, if it has not. */
void memory_leave(const struct allocation *gone);
/* The free of an allocation whose dealloc is open: the backend's where that provided it. context: what it waits for. */
CUresult memory_free(int variant, addr_t start, uint64_t context);
/* The same with that context current meanwhile: the calling thread may be in another one, or in none. False: it is
 * gone, and nothing was freed. */
bool memory_free_in(addr_t start, uint64_t context);
/* Managed memory that left the ledger has gone with its context, or is the backend's to release and not used any more.
 */
void memory_gone(const struct allocation *gone);
/* Everything that belonged to the context is gone (or the module, for globals). owner is the handle, as a number. */
void memory_forget(uint64_t owner);
/* Memory that is not charged here: another process's, a module's. owner as above. */
void memory_note(addr_t start, uint64_t bytes, enum memory_kind kind, uint64_t owner);
/* The same of what another process shares: as far as the driver says. */
void memory_note_imported(addr_t address);
/* Tells the counters what the device holds. */
void memory_publish(int device);

#endif
