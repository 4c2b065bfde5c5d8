/* What the files of the remapping backend share. Allocations are parts of reserved ranges of addresses; behind each
 * page on which there is one is a frame, on the device or on the host, and whichever it is, kernels may use the page.
 *
 *   part    the addresses of one allocation, in grains of PAGE_LEAST: two may meet in the middle of a page
 *   frame   one page of physical memory: a driver's handle, with an address of its own that never changes (its alias)
 *   place   where a frame lies
 *   stale   a page that nobody uses while it is away has given its frame to another, and is mapped there still: until
 *           it comes again that costs no call
 *   claim   of a stale page on that frame: if it is idle when the page comes, it gets it back, and needs no call then
 *           either
 *   slot    a page's place in a file: then the page has no frame
 *   placeholder  one frame, at which pages are mapped that have given up theirs and whose frames the driver got back,
 *           and those in the file
 *
 * Copies run from alias to alias; only the program's addresses are mapped anew, and for that moment nobody may use
 * them. */
#ifndef ULMS_VMM_H
#define ULMS_VMM_H

#include "backend/vmm/page_file.h"
#include "base/gate.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/spans.h"
#include "driver.h"
#include "frames/frames.h"

/* Where a frame lies: what arrays are indexed by. */
enum vmm_place { VMM_DEVICE, VMM_HOST, VMM_PLACES };
/* What is mapped at a page: its frame of a place (enum vmm_place), or one of these. */
enum { VMM_UNMAPPED = VMM_PLACES, VMM_STALE, VMM_PLACEHOLDER };

/* Who may use a mapping. */
struct vmm_users {
    CUmemAccessDesc access[DEVICE_MAX];
    size_t count;
};

/* --- frames of one place (pool.c) --- */

struct vmm_pool {
    struct ulms_frames frames;
    CUmemLocation location;
    struct vmm_users users;                /* of the aliases */
    addr_t aliases;                        /* of frame 0; the others follow */
    CUmemGenericAllocationHandle *handles; /* by frame; of those that are made, but of pieces */
    struct vmm_pieces **pieces;            /* by frame: what it is made of if others may be given it; NULL: nobody is */
    struct gate gate;                      /* of frames that have handles, or are being made or unmade */
};

/* Room for `bytes` of frames, none made. False: no addresses or no memory for it. */
bool vmm_pool_open(struct vmm_pool *p, CUmemLocation location, int32_t device, uint64_t bytes,
                   struct frames_limit *limit);
static inline addr_t vmm_alias(const struct vmm_pool *p, uint32_t frame) {
    return p->aliases + (uint64_t)frame * page_bytes;
}

/* --- frames of pieces: handles that may be exported, of memory that nobody had before (piece.c) --- */

struct vmm_pieces {
    size_t count;
    uint64_t bytes; /* of each */
    CUmemGenericAllocationHandle handle[];
};
/* A frame of n pieces, mapped at its alias, and used once. NO_FRAME: there is no memory for it, or no more may be made.
 */
uint32_t vmm_frame_make_pieces(struct vmm_pool *p, size_t n);
void vmm_pieces_release(struct vmm_pieces *s);
/* Maps them at the page. False: nothing is mapped there. */
bool vmm_frame_map_pieces(const struct vmm_pool *p, uint32_t frame, addr_t page, const struct vmm_users *users);

/* --- ranges: the program's addresses (range.c) --- */

struct vmm_page {
    uint32_t frame[VMM_PLACES]; /* or NO_FRAME; the one that is not mapped is a copy, or about to be mapped */
    uint64_t in_place_until;    /* operations of lower tickets may use it on the host. Under the device's lock */
    struct ulms_claim claim;    /* VMM_STALE: on the frame that it is mapped at */
    uint32_t slot;              /* in the file; or NO_SLOT. Atomic */
    uint8_t at;                 /* what is mapped: see VMM_PLACES */
    bool filled;                /* frame[VMM_HOST] holds what the page holds, or held when it came to the device */
    bool fixed;                 /* it is where it is for good */
    bool exported;              /* other processes may have it mapped: it is fixed, and nothing new comes onto it */
    bool aside;                 /* on the device, and the engine does not know of it, any more or yet */
    bool known;                 /* the engine was told of it; under `parts_lock` */
    uint16_t parts;             /* that lie on it; 0: it has no frames. Under `parts_lock` */
    uint16_t foreign;           /* mappings of the driver's handles on it: then no part is. Under `parts_lock` */
};
/* A mover changes it without the device's lock: who looks at a page that moves learns nothing from it. */
static inline void vmm_page_lies(struct vmm_page *p, uint8_t at) {
    __atomic_store_n(&p->at, at, __ATOMIC_RELAXED);
}
static inline uint8_t vmm_page_at(const struct vmm_page *p) {
    return __atomic_load_n(&p->at, __ATOMIC_RELAXED);
}
static inline bool vmm_page_is_filed(const struct vmm_page *p) {
    return __atomic_load_n(&p->slot, __ATOMIC_RELAXED) != NO_SLOT;
}
static inline bool vmm_page_is_unmapped(const struct vmm_page *p) {
    return vmm_page_at(p) == VMM_UNMAPPED;
}
/* What is mapped there is not its own; its frame of the host is. */
static inline bool vmm_page_is_vacant(const struct vmm_page *p) {
    uint8_t at = vmm_page_at(p);
    return at == VMM_STALE || (at == VMM_PLACEHOLDER && !vmm_page_is_filed(p));
}

/* Its start to its deletion is under `parts_lock`; told and divided under the device's lock. */
struct vmm_part {
    addr_t start;
    uint64_t bytes; /* whole grains */
    struct vmm_range *range;
    uint64_t number;       /* in the order in which they came */
    bool told;             /* it is in the ledger, and the engine takes it for one block, unless it is divided: */
    bool divided;          /* the framework told of a block there */
    bool hidden;           /* behind a handle that the program unmapped, and kept: its content stays */
    bool deferred;         /* the program freed it, and it is to be deleted later */
    uint64_t context;      /* deferred: that has to be waited for; 0: it is gone */
    struct vmm_part *next; /* deferred */
};

struct vmm_range {
    addr_t start;
    uint64_t bytes;         /* whole pages */
    struct vmm_seal *seals; /* by page (verify.h); NULL: none */
    struct vmm_part **part; /* by grain; NULL: free. Under `parts_lock` */
    size_t parts;           /* how many. Likewise */
    bool alone;             /* they share no page */
    bool reserved;          /* by the program, which says what lies where: parts and mappings of the driver's handles */
    struct vmm_page page[];
};

/* --- copies to the host (d2h_queue.c) --- */

struct d2h_queue {
    struct lock lock; /* who has it queues the next copy */
    uint64_t queued;  /* copies so far */
    uint64_t ends_ns; /* when the last is expected to have gone; 0: not known */
    uint64_t gone;    /* of those queued. Atomic */
    uint64_t mib_ns;  /* what a MiB takes; 0: not known. Atomic */
};
void d2h_queue_open(struct d2h_queue *t);
/* Copies when all others have gone, or nearly so, and waits. False: refused, or nobody knows whether it has gone. */
bool d2h_queue_copy(struct d2h_queue *t, addr_t to, addr_t from, uint64_t bytes, CUstream stream);

/* --- what is mapped where a page has no frame, or must give it up (placeholder.c) --- */

struct placeholder {
    struct lock lock; /* of what follows */
    bool there;
    enum vmm_place place;
    uint32_t frame;
    size_t pages;  /* that are mapped there, or are about to be */
    size_t coming; /* moves under way that may make it. Under the device's lock */
};

/* The backend's memory of one device. */
struct vmm {
    int32_t device;         /* CUDA ordinal */
    struct vmm_users users; /* of the program's addresses: the device and its peers */
    struct vmm_pool pool[VMM_PLACES];
    struct frame_prefetcher *prefetcher; /* NULL: frames are made as they are needed */
    struct d2h_queue d2h_queue;          /* of copies to the host */
    struct page_file *file;              /* of pages that the host does not hold */
    uint32_t filed;                      /* pages of the device that it holds. Atomic */
    struct filer *filer;                 /* NULL: none was ever to go there. Under the device's lock */
    struct placeholder placeholder;
    struct lock parts_lock; /* of parts: who comes and goes. Taken before the device's lock. Of the next three */
    uint64_t parts_made;
    uint64_t whole_bytes;   /* of the parts that are of whole pages */
    uint64_t padding_bytes; /* unused behind others that share no page; kept little beside it. Read by anybody */
    struct lock lock;       /* of what follows */
    struct spans ranges;
    bool beyond_host;    /* pages go to the file where the host has no frame */
    bool file_tells[2];  /* atomic: it was told that the file cannot be written, read */
    const char *unfiled; /* atomic: why no more goes there; NULL: more does */
    char kept[64];       /* what stays on the host */
    bool loses;          /* atomic: a page could not be mapped, or is stale for good */
    bool never_stale;    /* nothing moves any more, and no page is stale */
    /* Content that is wanted may leave stale pages, until a kernel comes that is not trusted (docs/vmm.md, "The
     * rule"). The last two under the device's lock. */
    bool untrusted;     /* atomic: it came, and what leaves from now on is mapped on the host */
    bool all_mapped;    /* so is what left before */
    bool stale_content; /* some content left stale pages, or is about to */
};

/* Where the page's frame of that place is mapped for us; it has one. */
static inline addr_t vmm_page_alias(const struct vmm *v, const struct vmm_page *p, enum vmm_place place) {
    return vmm_alias(&v->pool[place], p->frame[place]);
}

/* --- pages (page.c) --- */

/* Gives up the frame of a place where the page is not mapped. */
void vmm_page_drop(struct vmm *v, struct vmm_page *p, enum vmm_place place);
/* The page is in that slot, or (NO_SLOT) in none, and gives up the one that it had. */
void vmm_page_file(struct vmm *v, struct vmm_page *p, uint32_t slot);
/* Pages of [*first, end) that follow one another and are so: moves *first to them, returns how many. */
size_t vmm_page_next(const struct vmm_range *r, size_t *first, size_t end, bool (*is)(const struct vmm_page *));

/* host_limit: of what may lie on the host; shared with other devices. False: no addresses, or no memory. */
bool vmm_open(struct vmm *v, int32_t device, CUmemLocation host, struct frames_limit *host_limit);
/* Addresses, whole pages, with nothing behind them. NULL: there are none. */
struct vmm_range *vmm_range_new(struct vmm *v, uint64_t bytes);
/* The same of addresses that the program reserved, and gives back itself. */
struct vmm_range *vmm_range_of_program(struct vmm *v, addr_t start, uint64_t bytes);
/* Nothing is mapped there. */
void vmm_range_delete(struct vmm *v, struct vmm_range *r);
/* Frames that wait for addresses. */
struct vmm_stock {
    uint32_t *frame[VMM_PLACES];
    size_t count[VMM_PLACES];
};
/* n frames, `device` of them of the device while there are any, and with the spare ones that vmm_range_fill says.
 * False: there are not so many, and none is taken. */
bool vmm_stock_take(struct vmm *v, struct vmm_stock *s, size_t n, size_t device, size_t spare);
/* Gives back what is left of it. */
void vmm_stock_give(struct vmm *v, struct vmm_stock *s);
/* Frames of the stock behind each of the pages, as vmm_range_fill; there are enough of them. */
bool vmm_range_fill_from(struct vmm *v, struct vmm_range *r, size_t first, size_t n, struct vmm_stock *s);
/* A frame behind each of the pages [first, first + n), which have none: on the device while there are any and `device`
 * says so, then on the host, where `spare` of them (64 at most) have to be left for what is to leave the device. False:
 * there are not enough; what there is goes by vmm_range_empty. */
bool vmm_range_fill(struct vmm *v, struct vmm_range *r, size_t first, size_t n, bool device, size_t spare);
/* Their memory is nobody's any more. False: they could not be unmapped, and keep their frames for good, as nobody may
 * get those meanwhile. */
bool vmm_range_empty(struct vmm *v, struct vmm_range *r, size_t first, size_t n);
/* The range that holds p; NULL: none does. It stays until it is deleted. */
struct vmm_range *vmm_range_find(struct vmm *v, addr_t p);
/* Unmaps those of the pages [first, first + n) whose `at` is not `but`; stale ones have no claim any more. False: not
 * all of them. */
bool vmm_range_unmap(struct vmm *v, struct vmm_range *r, size_t first, size_t n, unsigned but);
/* Maps those of the pages that are unmapped to their frames of `to`, which they must have; where that is refused, back
 * to those of the other place, if they have them. False: not all of them are at `to`; each is where its `at` says. */
bool vmm_range_map(struct vmm *v, struct vmm_range *r, size_t first, size_t n, enum vmm_place to);
/* Maps the placeholder at those of the pages that are in the file and unmapped; where that is refused they stay so. */
void vmm_hold_places(struct vmm *v, struct vmm_range *r, size_t first, size_t n);
/* The same of all that are unmapped, if there is a placeholder: who has no frame of the host is in the file. */
void vmm_hold_vacant(struct vmm *v, struct vmm_range *r, size_t first, size_t n);
/* The page's frame of the device, which is unmapped, is the placeholder if there is none. */
void vmm_placeholder_adopt(struct vmm *v, struct vmm_page *p);
/* So many pages are mapped there no more. */
void vmm_placeholder_left(struct vmm *v, size_t n);
/* It is a frame of the device, or may become one (`comes`: of what leaves). */
bool vmm_placeholder_is_here(struct vmm *v, bool comes);
/* The placeholder is no frame of the host from now on: one of the device is, for what is mapped there next. *frame:
 * that of the host where pages are mapped still, or NO_FRAME. If there is one the placeholder has a page more, until
 * vmm_placeholder_left. False: the device has no room. */
bool vmm_placeholder_to_device(struct vmm *v, uint32_t *frame);
/* Those of the pages that are vacant are mapped to their frames of the host, before somebody may use them. Nothing of
 * them moves meanwhile. */
void vmm_range_map_stale(struct vmm *v, struct vmm_range *r, size_t first, size_t n);

/* --- parts: allocations (part.c). Under `parts_lock` --- */

/* Addresses for `bytes` in whole grains: in a range that has room, or else in a new one. apart: it is to share no page,
 * if little is lost by that. *fresh: bytes of the pages that nobody else is on. NULL: there are none. */
struct vmm_part *vmm_part_new(struct vmm *v, uint64_t bytes, bool apart, uint64_t *fresh);
/* The same at addresses in a range of the program's, where it shares what pages it must. NULL: other things are there,
 * or there is no memory. */
struct vmm_part *vmm_part_new_at(struct vmm *v, struct vmm_range *r, addr_t start, uint64_t bytes);
/* Frames behind its fresh pages, as vmm_range_fill. */
bool vmm_part_fill(struct vmm *v, struct vmm_part *p, bool device, size_t spare);
bool vmm_part_fill_from(struct vmm *v, struct vmm_part *p, struct vmm_stock *s);
/* Its memory is nobody's any more, and the engine knows no page that only it is on. */
void vmm_part_delete(struct vmm *v, struct vmm_part *p);
/* The newest part of that size that was not freed. NULL: there is none. */
const struct vmm_part *vmm_part_alike(const struct vmm *v, uint64_t bytes);
/* The part that holds p, of a range; NULL: none does. The caller's own, or under `parts_lock`. */
struct vmm_part *vmm_part_at(const struct vmm_range *r, addr_t p);
/* Its pages: [first, end) of its range. */
struct vmm_pages {
    size_t first, end;
} vmm_part_pages(const struct vmm_part *p);
/* Those that it does not share. */
struct vmm_pages vmm_part_own_pages(const struct vmm_part *p);

/* --- moves (move.c). For the time of one nobody else uses its pages --- */

struct vmm_move {
    addr_t start; /* whole pages of one range */
    uint64_t bytes;
    enum vmm_place to;
    bool copy;  /* the content matters */
    bool clean; /* to the host: what its frames hold from before is still right */
    bool stale; /* to the host: nobody uses it while it is away. All of the moves alike, and so is the next */
    bool parks; /* likewise, but its frame goes back to the driver, so that the placeholder is mapped there */
    bool file;  /* to the host: it may go to the file, and nothing is mapped there */
    bool keep;  /* to the device: keep what the host's frames hold */
    /* Called for each run while nothing is mapped there, so that nobody can use it. NULL: nobody looks. */
    void (*look)(struct vmm *v, struct vmm_range *r, size_t first, size_t n, const struct vmm_move *m, CUstream stream);
};

enum { VMM_MOVES = 64 };

/* VMM_STAYED: not all of it moved; what did not is as before. VMM_STUCK: the driver does not tell whether the copies
 * are done. Nothing moved, and their frames are lost: nobody may get them. */
enum vmm_moved { VMM_MOVED, VMM_STAYED, VMM_STUCK };

/* Somebody may write any of the pages, unknown to the engine: what those on the device kept on the host is no copy of
 * theirs any more. Nothing of them moves meanwhile. */
void vmm_range_written(struct vmm *v, struct vmm_range *r, size_t first, size_t n);
/* n moves to one place, VMM_MOVES at most: copies in the stream, waits for it, and maps the pages anew, unless they
 * become stale, all or none. What leaves the device gives back its frames as soon as they are not mapped any more: if
 * all of it did, `vacated` is called then (unless it is NULL), and only after that the pages are mapped elsewhere. */
enum vmm_moved vmm_move(struct vmm *v, const struct vmm_move *m, size_t n, CUstream stream, void (*vacated)(void *),
                        void *data);

/* --- copies to the file and back, on threads of ours (file_copy.c). False: errno says why not, which is told once ---
 */

/* No more pages go there, or (reads) what is there does not come back: says once why. */
void vmm_file_fails(struct vmm *v, bool reads, const char *why);
/* A slot. NO_SLOT: there is none. */
uint32_t vmm_file_take(struct vmm *v);
bool vmm_file_write(struct vmm *v, uint32_t slot, addr_t from, CUstream stream);
bool vmm_file_read(struct vmm *v, uint32_t slot, addr_t to, CUstream stream);
/* Pinned memory for them is there, and none ran for a second; it is given back. A context is current. */
bool vmm_stages_unused(void);
void vmm_stages_end(void);

/* --- the driver's calls (driver_calls.c). False: refused --- */

/* Maps memory of that size, without access. */
bool vmm_map(addr_t at, uint64_t bytes, CUmemGenericAllocationHandle handle);
bool vmm_unmap(addr_t start, uint64_t bytes);
/* So often, and with so much time between, is tried what must not stay refused. */
enum { VMM_TRIES = 50, VMM_TRY_US = 1000 };
/* What was mapped in vain: until it is unmapped nothing can be mapped there. */
bool vmm_unmap_again(addr_t start, uint64_t bytes);
bool vmm_allow(addr_t start, uint64_t bytes, const struct vmm_users *users);
bool vmm_create(CUmemGenericAllocationHandle *handle, uint64_t bytes, CUmemLocation location, bool exportable);
/* The file, which another process may be sent. -1: refused. */
int vmm_export_file(CUmemGenericAllocationHandle handle);
void vmm_release(CUmemGenericAllocationHandle handle);
/* 0: none. */
addr_t vmm_reserve(uint64_t bytes);
void vmm_unreserve(addr_t start, uint64_t bytes);
bool vmm_wait(CUstream stream);
/* The error says that the context is lost: it tells so at every call. */
bool vmm_is_lost(CUresult status);
bool vmm_copy(addr_t to, addr_t from, uint64_t bytes, CUstream stream);

#endif
