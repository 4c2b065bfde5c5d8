#include "base/capacity.h"

#include "base/options.h"
#include "types.h"

static uint64_t granted[DEVICE_MAX]; /* atomic */
static bool leased[DEVICE_MAX];      /* atomic */

uint64_t capacity_of(int device) {
    (void)device; /* one option for all */
    return ulms_options.capacity;
}

uint64_t capacity_granted(int device) {
    bool known = device >= 0 && device < DEVICE_MAX;
    uint64_t most = capacity_of(device), now = known ? __atomic_load_n(&granted[device], __ATOMIC_RELAXED) : 0;
    return !now || (most && most < now) ? most : now;
}

static void grant(int device, uint64_t bytes, bool as_lease) {
    if (device < 0 || device >= DEVICE_MAX)
        return;
    __atomic_store_n(&granted[device], bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&leased[device], as_lease, __ATOMIC_RELAXED);
}

void capacity_grant(int device, uint64_t bytes) {
    grant(device, bytes, false);
}

void capacity_lease(int device, uint64_t bytes) {
    grant(device, bytes, true);
}

int capacity_factor(int device) {
    return __atomic_load_n(&leased[device], __ATOMIC_RELAXED) ? ulms_options.lease_factor : ulms_options.factor;
}
