/* The memory whose pages move: it comes and goes. See backend.h. */
#ifndef ULMS_PAGER_MEMORY_H
#define ULMS_PAGER_MEMORY_H

#include "backend/pager/pages.h"

struct pager_memory {
    struct spans ranges;
    struct spans still_advised; /* memory that left while the driver's advice is still set */
    uint64_t bytes;             /* of ours, in whole pages, but for what was freed and is unused */
    /* Bytes of the device that the engine does not rule: of memory that never moves; of pages that left the engine and
     * are not released yet, or that it is about to hear of. */
    uint64_t fixed, aside;
};

struct pager;

/* So many bytes of the device more, or less, never move; are aside. Under the lock. */
void pager_memory_fix(struct pager *d, int64_t bytes);
void pager_memory_set_aside(struct pager *d, int64_t bytes);
/* For memory that is about to be told to the engine. Under the lock, which may be released meanwhile. */
void pager_make_room(struct pager *d, uint64_t bytes);
/* So many of its bytes were aside until now. */
void pager_arrived(addr_t start, uint64_t bytes, int32_t device, uint64_t aside);
bool pager_crowded(int32_t device, uint64_t bytes);
void pager_plain(int32_t device);
void pager_coming(int32_t device, int64_t bytes);
void pager_freeing(addr_t start, uint64_t bytes);
bool pager_free_deferred(addr_t start, uint64_t bytes, bool unused);

#endif
