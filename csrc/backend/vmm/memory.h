/* The backend's memory of each device, and what is done to it under the pager's lock. */
#ifndef ULMS_VMM_MEMORY_H
#define ULMS_VMM_MEMORY_H

#include "backend/pager/pager.h"
#include "backend/vmm/vmm.h"

/* NULL: there is none, and perhaps none can be had. */
static inline struct vmm *vmm_in(const struct pager *d) {
    return __atomic_load_n((struct vmm *const *)&d->own, __ATOMIC_ACQUIRE);
}

/* --- who holds an address (lookup.c) --- */

/* The range that holds p, and its device; NULL: none does. */
struct vmm_range *vmm_find(addr_t p, struct pager **device);
/* The range of a page that the engine knows. Under the device's lock, and until it is given up: another thread may free
 * what nobody uses. NULL: it has, or does. */
struct vmm_range *vmm_range_at(const struct pager *d, addr_t p);
/* The part that starts there, and its device; NULL: none does, or it was freed already. */
struct vmm_part *vmm_part_of(addr_t start, struct pager **d);
/* See backend.h. */
bool vmm_holds(addr_t p);
/* Any page of that, which the engine knows, is so. Under the device's lock. */
bool vmm_any_page(const struct pager *d, addr_t start, uint64_t bytes, bool (*is)(const struct vmm_page *));

/* --- memory that goes (leave.c) --- */

/* The page leaves the engine. Under `parts_lock`, and so is the next. */
void vmm_leave_page(struct pager *d, struct vmm_range *r, size_t i);
/* Those that no other part is on do. */
void vmm_leave_pages(struct pager *d, const struct vmm_part *p);
/* Gives up a part that nothing uses, and the pages that no other is on. */
void vmm_end_part(struct pager *d, struct vmm_part *p);

/* --- pages that are used unseen (opaque_access.c). Nothing of them moves meanwhile; under the device's lock --- */

/* What is away may stay mapped where others lie, or nowhere: no kernel uses it unseen. */
bool vmm_goes_stale(const struct pager *d);
/* Those of [start, end) that are vacant are mapped on the host. */
void vmm_map_stale(struct pager *d, addr_t start, addr_t end);
/* Any page may be written. */
void vmm_written(struct pager *d);

/* --- the placeholder's page of the budget (placeholder_budget.c). Under the device's lock --- */

/* A move that may make it begins, or is over. */
void vmm_placeholder_coming(struct pager *d, bool begins);
/* Something else may have made it, or been the last that was mapped there. */
void vmm_placeholder_look(struct pager *d);
/* See pager_kind.lends. */
uint64_t vmm_placeholder_bytes(const struct pager *d);

/* --- frames that the driver gets back (give_back.c) --- */

/* Bytes of frames that the budget allows. Under the device's lock. */
uint64_t vmm_frames_allowed(const struct pager *d);
/* Gives idle frames of the device back to the driver, until only so many bytes of frames are made. True: memory of the
 * device became free. */
bool vmm_give_back(struct pager *d, uint64_t most);
/* See struct pager_kind. */
uint64_t vmm_occupied(const struct pager *d);

/* --- the thread that makes frames ahead (frame_prefetcher.c) --- */

/* The same if there will soon be more memory than fits, with so many bytes more. Under the device's lock. */
void frame_prefetcher_follow(struct pager *d, uint64_t bytes);
/* Ends all of them. */
void frame_prefetchers_stop(void);
/* See backend.h: frames beyond the grant are the driver's again. */
void vmm_granted(int32_t device);

/* --- pages in the file (file_tier.c, filer.c) --- */

struct backend_load;
/* What lies on the host goes to a file in the folder from now on, while nothing runs; NULL: no more does. Returns why
 * it does not, or NULL. On one thread of ours, without the lock. */
const char *vmm_file(struct pager *d, const char *folder);
/* What the host has no room for goes to a file. Once, before there is any memory. */
void vmm_file_beyond(struct pager *d);
/* It does. Under the lock. */
bool vmm_files(const struct pager *d);
/* Something is in the file, or may be soon. Under the lock, and so is the next. */
bool vmm_may_file(const struct pager *d);
/* Something of [start, end) lies in the file. */
bool vmm_any_filed(const struct pager *d, addr_t start, addr_t end);
/* What of [start, end) lies in the file comes to the host, where it stays until all operations of lower tickets than
 * `until` have retired, or to the device. `pauses`: the caller lets no move begin. False: it does not come, and must
 * not be used. Under the lock, which is released meanwhile. */
__attribute__((warn_unused_result)) bool vmm_recall(struct pager *d, addr_t start, addr_t end, uint64_t until,
                                                    bool pauses);
bool vmm_insists(struct pager *d, const struct op *op);
bool vmm_is_away(struct pager *d, const struct op *op);
void vmm_load(const struct pager *d, struct backend_load *load);
void vmm_filers_stop(void);
void vmm_fork_child(void);
/* See backend_shares.let_go (let_go.c). On one thread of ours, without the lock. */
const char *vmm_let_go(struct pager *d, bool lets);

/* --- how it comes and goes (memory.c): see backend.h, and struct pager_kind --- */

bool vmm_serves(int32_t device);
bool vmm_free_deferred(addr_t start, uint64_t bytes, bool unused);
bool vmm_provide(addr_t *start, uint64_t bytes, int32_t device);
void vmm_arrived(addr_t start, uint64_t bytes, int32_t device);
void vmm_arrives(struct pager *d, addr_t start, uint64_t bytes, bool fits);
void vmm_freeing(addr_t start, uint64_t bytes);
bool vmm_free(addr_t start, uint64_t context, int32_t *status);
uint64_t vmm_held(int32_t device);
bool vmm_relieve(int32_t device);
void vmm_plain(int32_t device);
void vmm_coming(int32_t device, int64_t bytes);
uint64_t vmm_padding(const struct pager *d);
/* The backend's memory of the device, made if need be. NULL: there is none. */
struct vmm *vmm_of(struct pager *d);
/* Room for memory that comes is set aside: for `most` bytes, else for `least`, else none. Returns for how many. */
uint64_t vmm_promise(struct pager *d, uint64_t most, uint64_t least);
/* It is that of the fresh pages which are on the device now. */
void vmm_promise_end(struct pager *d, uint64_t bytes, struct vmm_range *r, struct vmm_pages fresh);
/* A page comes, again: it has its frame, and is mapped there. Under `parts_lock`. */
void vmm_arrive_page(struct pager *d, struct vmm_range *r, size_t i);
/* The framework told of a block, and the engine knows: the rest of its parts is nobody's. Under the device's lock. */
void vmm_divided(struct pager *d, addr_t start, uint64_t bytes);

/* --- memory that stays where it is (fixed.c) --- */

/* It does not yet. */
bool vmm_may_move(const struct vmm_page *p);
/* The pages of [start, end), of one range, stay where they are. `pauses`: the caller lets no move begin. False: some do
 * not come to rest; then nothing moves any more, which is told, and no operation runs before all of it is there. */
bool vmm_fix(struct pager *d, addr_t start, addr_t end, bool pauses);
/* See backend.h. */
void vmm_pin_reachable(const addr_t *pointers, size_t n);

/* --- memory that other processes map (export.c): see backend.h --- */

struct backend_share;
bool vmm_share(addr_t start, size_t first, struct backend_share *share);

#endif
