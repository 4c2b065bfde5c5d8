/* Accounting: reserve, real call, commit or roll back. Every kind of allocation goes through these. */
#ifndef ULMS_MEMORY_H
#define ULMS_MEMORY_H

#include "driver.h"
#include "ledger/ledger.h"

/* What an allocation is charged, from before the real call. */
struct charge {
    bool recorded;
    bool managed;
    int device;
    enum memory_kind kind;
    uint64_t bytes;   /* charged */
    uint64_t context; /* 0: asked for when the memory is there */
    CUresult status;  /* what the program gets */
};

/* Charges bytes of plain memory to the device. False when the quota refuses: status is then the driver's out-of-memory
 * error and the real function is not called. True also when nothing is recorded at all. */
bool charge_open(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* The same whatever the quota: nothing is refused. */
void charge_open_unlimited(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* What was charged is free again. */
void charge_cancel(const struct charge *c);
/* As charge_open, for managed memory on a device that the backend serves; for plain memory on another. */
bool charge_open_managed(struct charge *c, int device, enum memory_kind kind, uint64_t bytes);
/* The real call returned `status`: the driver had no memory, but the backend gave some back. RELIEVED makes the call
 * once more then. */
bool charge_relieved(const struct charge *c, CUresult status);
#define RELIEVED(c, call)                                                                                              \
    ({                                                                                                                 \
        CUresult first_ = (call);                                                                                      \
        charge_relieved((c), first_) ? (call) : first_;                                                                \
    })
/* The real call returned `status`, on success with `bytes` bytes at *start: commits, or rolls back. */
void charge_close(struct charge *c, CUresult status, const CUdeviceptr *start, uint64_t bytes);
/* The same for memory without an address: what was charged stays charged on success, until charge_end. */
void charge_hold(struct charge *c, CUresult status);
void charge_end(const struct charge *c);

/* A free under way. */
struct dealloc {
    bool recorded;
    struct allocation gone;
};

/* Takes the allocation at start out of the ledger. Before the real free, unlike all else: afterwards the driver may
 * give another thread the same address. */
void dealloc_open(struct dealloc *p, addr_t start);
/* The same for a free in stream order: memory that was provided leaves the backend later. */
void dealloc_open_later(struct dealloc *p, addr_t start);
/* The real free returned: on failure the allocation is put back, but the backend does not get it again. Returns status.
 */
CUresult dealloc_close(const struct dealloc *p, CUresult status);

/* Managed memory that left the ledger was freed in stream order; `unused`: what was issued before has run. False: to be
 * told so once more. */
bool memory_dying(const struct allocation *gone, bool unused);
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
/* The host stores there without telling: addresses, perhaps. */
bool memory_is_host_written(addr_t address);
/* Tells the counters what the device holds. */
void memory_publish(int device);

#endif
