#include "base/capacity.h"

#include "base/options.h"
#include "types.h"

/* All atomic. */
static uint64_t granted[DEVICE_MAX], group[DEVICE_MAX], others[DEVICE_MAX];
static bool leased[DEVICE_MAX];

static bool is_known(int device) {
    return device >= 0 && device < DEVICE_MAX;
}

/* 0 is no limit. */
static uint64_t lower(uint64_t a, uint64_t b) {
    return !a || (b && b < a) ? b : a;
}

static uint64_t load(const uint64_t of[DEVICE_MAX], int device) {
    return is_known(device) ? __atomic_load_n(&of[device], __ATOMIC_RELAXED) : 0;
}

uint64_t capacity_of(int device) {
    uint64_t own = load(ulms_options.device_capacity, device);
    return lower(own ? own : ulms_options.capacity, load(group, device));
}

bool capacity_is_group(int device) {
    return load(group, device) > 0;
}

uint64_t capacity_others(int device) {
    return load(others, device);
}

void capacity_group(int device, uint64_t bytes, uint64_t by_others) {
    if (!is_known(device))
        return;
    __atomic_store_n(&group[device], bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&others[device], by_others, __ATOMIC_RELAXED);
}

uint64_t capacity_granted(int device) {
    return lower(capacity_of(device), load(granted, device));
}

static void grant(int device, uint64_t bytes, bool as_lease) {
    if (!is_known(device))
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
