#include "base/capacity.h"

#include "base/options.h"
#include "types.h"

static uint64_t granted[DEVICE_MAX]; /* atomic */

uint64_t capacity_of(int device) {
    (void)device; /* one option for all */
    return ulms_options.capacity;
}

uint64_t capacity_granted(int device) {
    bool known = device >= 0 && device < DEVICE_MAX;
    uint64_t most = capacity_of(device), now = known ? __atomic_load_n(&granted[device], __ATOMIC_RELAXED) : 0;
    return !now || (most && most < now) ? most : now;
}

void capacity_grant(int device, uint64_t bytes) {
    if (device >= 0 && device < DEVICE_MAX)
        __atomic_store_n(&granted[device], bytes, __ATOMIC_RELAXED);
}
