/* How many bytes each device holds, and the most it may. Every function may be called from any thread, without a lock.
 * A device that has no number (DEVICE_NONE, or DEVICE_MAX and above) is neither limited nor counted.
 *
 * Plain memory is limited on each device. Managed memory is limited once for all of them, as the host backs it, and in
 * whole pages. */
#ifndef ULMS_QUOTA_H
#define ULMS_QUOTA_H

#include "ledger/word.h"
#include "types.h"

struct quota {
    word managed_limit; /* managed bytes in all; 0: no limit */
    word managed;       /* bytes in whole pages */
    struct {
        word limit;   /* plain bytes it may hold; 0: no limit */
        word claimed; /* plain bytes held or promised: what the limit bounds */
        word plain;   /* bytes held: part of used */
        word used, peak;
    } devices[DEVICE_MAX];
};

/* Promises plain bytes, unless that would pass the limit: then false, and at no instant were they promised. What is
 * only promised counts nowhere else. */
bool quota_reserve(struct quota *q, int device, uint64_t bytes);
/* The device holds what was promised; or it is not promised any more. */
void quota_commit(struct quota *q, int device, uint64_t bytes);
void quota_cancel(struct quota *q, int device, uint64_t bytes);
/* Some bytes are promised that may still be cancelled. */
bool quota_promised(const struct quota *q, int device);
/* Charges bytes that the device holds whatever the limit says. */
void quota_charge(struct quota *q, int device, uint64_t bytes, bool managed);
/* Credits bytes. Never below 0. */
void quota_credit(struct quota *q, int device, uint64_t bytes, bool managed);
uint64_t quota_used(const struct quota *q, int device);
uint64_t quota_plain(const struct quota *q, int device);
uint64_t quota_peak(const struct quota *q, int device);

/* The whole pages of `bytes` of managed memory: charged unless that would pass the limit; credited. */
bool quota_take_pages(struct quota *q, uint64_t bytes);
/* The same whatever the limit; false only where no number holds the sum. */
bool quota_take_any_pages(struct quota *q, uint64_t bytes);
void quota_give_pages(struct quota *q, uint64_t bytes);

/* Nothing is held and nothing ever was; the limits stay. */
void quota_clear(struct quota *q);

#endif
