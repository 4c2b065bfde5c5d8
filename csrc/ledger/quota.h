/* How many bytes each device holds, and the most it may. Every function may be called from any thread, without a lock.
 * A device that has no number (DEVICE_NONE, or DEVICE_MAX and above) is neither limited nor counted. */
#ifndef ULMS_QUOTA_H
#define ULMS_QUOTA_H

#include "ledger/word.h"
#include "types.h"

struct quota {
    word limit; /* bytes a device may hold; 0: no limit */
    struct {
        word used, peak; /* bytes */
    } devices[DEVICE_MAX];
};

/* Charges bytes, unless that would pass the limit: then false, and at no instant was it charged. */
bool quota_reserve(struct quota *q, int device, uint64_t bytes);
/* Charges bytes that the device holds whatever the limit says. */
void quota_charge(struct quota *q, int device, uint64_t bytes);
/* Credits bytes. Never below 0. */
void quota_credit(struct quota *q, int device, uint64_t bytes);
uint64_t quota_used(const struct quota *q, int device);
uint64_t quota_peak(const struct quota *q, int device);
/* Nothing is held and nothing ever was; the limit stays. */
void quota_clear(struct quota *q);

#endif
