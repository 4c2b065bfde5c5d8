/* Address space: what every device address is, and where its bytes are.
 *
 * Device addresses lie in one reserved range that the host cannot touch. The bytes of address a are at a + alias,
 * mapped from a memory file, so that one piece of physical memory can be at two addresses. Host memory that devices
 * reach is its own alias. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "context.h"
#include "emu.h"

enum area_kind {
    AREA_PLAIN,
    AREA_MANAGED,
    AREA_POOL,
    AREA_VMM,      /* a mapping */
    AREA_IPC,      /* another process's, or this one's once more */
    AREA_VARIABLE, /* of a module */
    AREA_GRAPH,    /* of a graph's allocation node */
    AREA_PINNED,   /* host memory allocated here */
    AREA_REGISTERED,
};

struct area {
    uint64_t start, bytes; /* exact: one byte further is an illegal address */
    enum area_kind kind;
    struct device *device; /* NULL: host memory */
    CUcontext context;     /* it dies with this one; NULL: outlives contexts */
    uint64_t id;
    unsigned flags;   /* as given to cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged */
    uint64_t charged; /* physical bytes */
    CUmemoryPool pool;
    struct pages *pages;                   /* of AREA_MANAGED */
    struct physical *physical;             /* of AREA_VMM */
    uint64_t offset;                       /* into physical; of AREA_IPC: into its first granule */
    unsigned char rights[DEVICES_MAX + 1]; /* of AREA_VMM: CUmemAccess_flags by device, the host last */
};

/* What the calls that free device memory take. */
enum { AREAS_FREED = 1u << AREA_PLAIN | 1u << AREA_MANAGED | 1u << AREA_POOL | 1u << AREA_GRAPH };

static inline bool area_is_host(const struct area *a) {
    return a->kind == AREA_PINNED || a->kind == AREA_REGISTERED;
}

extern int64_t alias; /* what to add to a device address to reach its bytes */

/* Reserves the address space. CUDA_ERROR_OUT_OF_MEMORY when the system refuses. */
CUresult memory_open(void);
/* The file behind plain memory; address a is at offset a - memory_base(). */
int memory_file(void);
uint64_t memory_base(void);
/* The next reader of that part of a memory file finds zeros. What is not large stays there, as the system takes ten
 * times as long to bring a page as to clear it. */
void memory_clear(int file, uint64_t offset, uint64_t bytes);
/* A memory file of that length has at least the new one. Whoever calls has a lock of the length. */
bool memory_lengthen(int file, uint64_t *length, uint64_t least);
/* True when the range lies inside the reserved addresses. */
bool memory_holds(uint64_t address, uint64_t bytes);
/* Addresses without anything behind them, aligned; 0: none left. wanted: tried first unless 0. */
uint64_t memory_reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted);
void memory_unreserve(uint64_t start, uint64_t bytes);

/* New memory of the device, of the given kind, entered as an area; small pieces of a pool, or of none (NULL), share
 * granules. CUDA_SUCCESS, or CUDA_ERROR_OUT_OF_MEMORY. */
CUresult memory_allocate(CUcontext c, enum area_kind kind, struct device *d, CUmemoryPool pool, uint64_t bytes,
                         struct area *made);
/* Addresses for an allocation of a graph; 0: none left. They are never given to anybody else: whatever launches of the
 * graph come, nothing else is there. */
uint64_t memory_reserve_for_graph(uint64_t bytes);
/* Whether a copy or memset of that range is taken: it stays within one allocation, or mappings that follow one another.
 * What will be at addresses that a graph reserved, or the program, shows when the operation runs. */
bool memory_reaches(uint64_t start, uint64_t bytes);
/* Whether a node of a graph may have it: something is mapped at addresses that the program reserved. */
bool memory_is_mapped(uint64_t start, uint64_t bytes);
/* Puts memory at addresses reserved for a graph, of what its launch took from the device. When it is freed the
 * addresses stay reserved. */
CUresult memory_back(CUcontext c, struct device *d, uint64_t start, uint64_t bytes);
/* Frees the area that starts here if its kind is in `kinds` (bits 1 << kind). False: there is none. */
bool memory_free(uint64_t start, unsigned kinds);
/* The same after all work of the context, while holding its lock. */
bool memory_free_drained(CUcontext c, uint64_t start, unsigned kinds);
/* Frees everything that dies with the context. */
void memory_free_context(CUcontext c);

/* --- areas.c --- */

/* Enters a copy of *a, with an id of its own. False when it overlaps another or there is no memory for it. */
bool area_add(const struct area *a);
/* A copy of the area that holds the address. False: none does. */
bool area_find(uint64_t address, struct area *out);
/* Takes out the area that starts here, if its kind is in kinds. An operation that is using it fails, and is waited for.
 */
bool area_remove(uint64_t start, unsigned kinds, struct area *out);
/* Takes out any area of the context; for its end. */
bool area_remove_of_context(CUcontext c, struct area *out);
/* Called with the part [start, end) of a range that the area holds. It may change the area. */
typedef bool (*area_visitor)(struct area *a, uint64_t start, uint64_t end, void *data);
/* Calls visit for every area that overlaps the range, in address order, until it returns false; false then.
 * Gaps are skipped; *covered, if not NULL, tells whether there were none. */
bool area_visit(uint64_t start, uint64_t bytes, bool *covered, area_visitor visit, void *data);

#endif
