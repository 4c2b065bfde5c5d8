/* The ledger: every allocation and block of device memory, found by any address inside it; and the quota.
 *
 * All functions may be called from any thread. Look-ups take no lock: a reader that meets a writer tries again.
 * Nothing here calls CUDA, malloc or a clock. Sizes are bytes.
 *
 * Pre-condition of every range: start > 0, bytes > 0 and start + bytes does not wrap. One that breaks it is refused and
 * changes nothing.
 */
#ifndef ULMS_LEDGER_H
#define ULMS_LEDGER_H

#include "types.h"

struct ledger;

struct allocation {
    addr_t start;
    uint64_t bytes;
    uint64_t id;      /* unique for the life of the process, from 1 */
    uint64_t charged; /* bytes held against the quota; returned when the allocation goes */
    uint64_t context; /* the CUcontext it dies with; 0: none. Not looked at here */
    int32_t device;   /* CUDA ordinal or DEVICE_NONE */
    uint16_t kind;    /* enum memory_kind */
    uint16_t managed; /* 1: managed memory, of which the driver can move pages; 0: plain */
};

/* A new, empty ledger without a limit, or NULL when the system has no memory. */
struct ledger *ledger_new(void);
void ledger_delete(struct ledger *l);

/* --- quota: reserve, allocate, then commit (ledger_commit) or roll back (ledger_cancel) --- */

/* Plain bytes the device, which has a number, may hold; 0: no limit. */
void ledger_limit(struct ledger *l, int device, uint64_t bytes);
/* Promises plain bytes of the device: until they are committed they count against the limit only. False, and nothing
 * promised, when that would pass the limit. DEVICE_NONE is never limited, and not counted. */
bool ledger_reserve(struct ledger *l, int device, uint64_t bytes);
/* The device holds what was promised: charged. */
void ledger_commit(struct ledger *l, int device, uint64_t bytes);
/* It does not, and will not. */
void ledger_cancel(struct ledger *l, int device, uint64_t bytes);
/* Some bytes are promised that may still be cancelled. */
bool ledger_promised(const struct ledger *l, int device);
/* The device holds more plain bytes, whatever the limit says; or fewer. */
void ledger_charge(struct ledger *l, int device, uint64_t bytes);
void ledger_credit(struct ledger *l, int device, uint64_t bytes);
/* Bytes charged to the device at present, those of them that are plain, and the most there have been. */
uint64_t ledger_used(const struct ledger *l, int device);
uint64_t ledger_plain(const struct ledger *l, int device);
uint64_t ledger_peak(const struct ledger *l, int device);

/* Managed memory. Its pages are charged once for all devices, the device is charged the bytes without a limit. */

/* Bytes in whole pages that the process may hold; 0: no limit. */
void ledger_limit_managed(struct ledger *l, uint64_t bytes);
/* Charges the pages only. False, and nothing charged, when they would pass the limit. */
bool ledger_reserve_managed(struct ledger *l, uint64_t bytes);
/* The same whatever the limit; false only where no number holds the sum. */
bool ledger_charge_managed(struct ledger *l, uint64_t bytes);
/* Returns them. */
void ledger_cancel_managed(struct ledger *l, uint64_t bytes);
/* Charges the device: the memory is there, or serves again after ledger_remove took it out; or returns that. */
void ledger_commit_managed(struct ledger *l, int device, uint64_t bytes);
void ledger_credit_managed(struct ledger *l, int device, uint64_t bytes);
/* Pages held, in bytes. */
uint64_t ledger_managed(const struct ledger *l);

/* --- allocations --- */

/* Enters an allocation whose `charged` bytes were reserved before; sets *a's id and returns it.
 * 0 when the range overlaps a live one (which stays) or there is no memory for the entry: the caller cancels. */
uint64_t ledger_add(struct ledger *l, struct allocation *a);
/* Takes out the allocation that starts at start, with all its blocks. The device has plain memory back only with
 * ledger_freed; it is credited managed memory at once, and ledger_freed returns the pages.
 * False when none starts there. *gone, if not NULL, gets what was taken out.
 * Call it before the driver's free: afterwards another thread may be given the same address. */
bool ledger_remove(struct ledger *l, addr_t start, struct allocation *gone);
/* What ledger_remove took out has really been freed. */
void ledger_freed(struct ledger *l, const struct allocation *gone);
/* Puts back an allocation that ledger_remove took out, with its id and its charge, but without blocks and tables: the
 * driver refused the free. */
void ledger_restore(struct ledger *l, const struct allocation *a);
/* The allocation that holds p. False when none does. */
bool ledger_find(const struct ledger *l, addr_t p, struct allocation *out);
/* The host stores there without telling: addresses, perhaps. */
bool ledger_is_host_written(const struct ledger *l, addr_t p);
/* The one that starts last at or before p. False when none does. */
bool ledger_find_before(const struct ledger *l, addr_t p, struct allocation *out);
/* Whether one allocation holds all of the range. */
bool ledger_holds(const struct ledger *l, addr_t start, uint64_t bytes);
/* A cheap test that is false for almost every value that is not an address in the ledger. */
bool ledger_may_hold(const struct ledger *l, addr_t p);
/* Every address in the ledger lies in [*low, *high): for callers that test many values in a row. */
void ledger_bounds(const struct ledger *l, addr_t *low, addr_t *high);
/* Number of live allocations, and of blocks told by the framework. */
uint64_t ledger_allocations(const struct ledger *l);
uint64_t ledger_blocks(const struct ledger *l);
/* So many at a time are listed on a stack that may be small. */
enum { LEDGER_LISTED = 16 };
/* Copies at most n live allocations, in address order, from the first that starts at or after `from`. Returns how many.
 */
size_t ledger_list(const struct ledger *l, addr_t from, struct allocation *out, size_t n);

/* --- blocks --- */

/* Copies at most n of those that the framework has given out, in address order, from the first that starts at or after
 * `from`: start, bytes, allocation (0: of several), and source. Returns how many. */
size_t ledger_list_blocks(const struct ledger *l, addr_t from, struct touch *out, size_t n);
/* The last of them that starts in [from, end). False: none does. */
bool ledger_last_block(const struct ledger *l, addr_t from, addr_t end, struct touch *out);

/* The framework will tell of a block that starts there, or take it back: brings what that reads nearer. */
void ledger_block_foresee(const struct ledger *l, addr_t start);
/* A block told by the framework's allocator: [start, start + bytes). A live block it overlaps is replaced. */
void ledger_block_add(struct ledger *l, addr_t start, uint64_t bytes);
/* The framework gave back the block that starts at start. False when there is none. */
bool ledger_block_remove(struct ledger *l, addr_t start);
/* The same as ledger_block_add, for a capture: the graph uses it as long as it lives, whatever the framework says of it
 * later, and so perhaps all of the allocations that hold it. */
void ledger_block_captured(struct ledger *l, addr_t start, uint64_t bytes);
/* The allocation that holds p has such memory. */
bool ledger_is_captured(const struct ledger *l, addr_t p);
/* Both while nobody looks blocks up, of blocks that overlap none that lives: cheaper then, and dearer for the first who
 * does. False, and nothing done, once ledger_blocks_at_once was called: from there on, who lists all blocks and hears
 * of those that come and go misses none. */
bool ledger_block_add_later(struct ledger *l, addr_t start, uint64_t bytes);
bool ledger_block_remove_later(struct ledger *l, addr_t start);
/* One of the two comes next for that block: brings what they read nearer. */
void ledger_pending_foresee(const struct ledger *l, addr_t start);
void ledger_blocks_at_once(struct ledger *l);
/* A library uses [start, start + bytes) as one thing: a block from now on, unless the framework told one there or a
 * library a larger one. Returns the id of the allocation that holds start; 0 when none does. */
uint64_t ledger_block_tell(struct ledger *l, addr_t start, uint64_t bytes);
/* The same for n touches of one call whose allocation is 0: sets it, and takes out those that none holds. Returns how
 * many are left, in the order they had. */
size_t ledger_blocks_tell(struct ledger *l, struct touch *touches, size_t n);
/* Addresses will be looked up next: brings what every look-up reads nearer. */
void ledger_foresee(const struct ledger *l);
/* The best known extent around p, for one touch: sets start, bytes, allocation and source, and notes p as an
 * observed pointer where no block is known. mode is left alone. False when p is in no allocation, or in one that the
 * framework divides into blocks, but in no block that was told: nobody uses what is there, p is left over from an
 * earlier use. An allocation with memory of ledger_block_captured is used as a whole. */
bool ledger_extent(struct ledger *l, addr_t p, struct touch *out);
/* The same in a capture, where the blocks of such memory hold. */
bool ledger_extent_captured(struct ledger *l, addr_t p, struct touch *out);
/* The same for n addresses, 32 at most, of which those are found that were found before in blocks that were told: bit i
 * of what is returned says whether out[i] was set, with this mode. For the others there is ledger_extent. */
uint32_t ledger_extents_told(struct ledger *l, const addr_t *p, size_t n, enum touch_mode mode, struct touch *out);
/* A call used [start, start + bytes) as one thing: pointers that were observed inside of it, in the allocation of
 * start, split nothing any more, until they are observed again. What follows the last of them belongs to it, too. So
 * often in an allocation and no more. */
void ledger_unsplit(struct ledger *l, addr_t start, uint64_t bytes);

/* --- pointer tables: device memory that holds ledger addresses (hidden-pointer sources) --- */

/* [start, start + bytes) was filled with a copy that held n ledger addresses, given with their values.
 * Replaces what was known of the range; n = 0 forgets it. */
void ledger_table_set(struct ledger *l, addr_t start, uint64_t bytes, const addr_t *pointers, size_t n);
/* Copies at most n of the pointers known to lie inside [start, start + bytes). Returns how many there are in all. Of a
 * table that was partly overwritten all pointers are still given, and some may come twice. */
size_t ledger_table_find(const struct ledger *l, addr_t start, uint64_t bytes, addr_t *pointers, size_t n);
/* Copies the n words that device memory held from start on when they were copied there. False, unless one copy of
 * ledger addresses only brought them all. *sure: whether they are still what it holds, as ledger_table_sure tells. */
bool ledger_table_read(const struct ledger *l, addr_t start, size_t n, addr_t *pointers, bool *sure);
/* Whether that range holds the pointers that the two above give, and no others: all of it was copied, and nothing that
 * may have overwritten it was told since. */
bool ledger_table_sure(const struct ledger *l, addr_t start, uint64_t bytes);
/* Cheap: false while there is no table at all. */
bool ledger_any_table(const struct ledger *l);
/* An operation with these touches is about to be issued: what it writes is forgotten, what it may write is doubted. */
void ledger_tables_touched(struct ledger *l, const struct touch *touches, size_t n);
/* Any of them may have been overwritten. */
void ledger_tables_doubt(struct ledger *l);

/* Proves order, absence of overlap, sums and bounds; aborts with a line on the first violation. For tests. */
void ledger_check(struct ledger *l);

#endif
