#include "ledger/quota.h"

static bool counted(int device) {
    return device >= 0 && device < DEVICE_MAX;
}

/* Charges unless the device would then hold more than limit. */
static bool charge(struct quota *q, int device, uint64_t bytes, uint64_t limit) {
    word *used = &q->devices[device].used, *peak = &q->devices[device].peak;
    uint64_t before = get(used), most = get(peak);
    do {
        if (bytes > limit || before > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(used, &before, before + bytes));
    while (most < before + bytes && !atomic_compare_exchange_weak(peak, &most, before + bytes))
        ;
    return true;
}

bool quota_reserve(struct quota *q, int device, uint64_t bytes) {
    uint64_t limit = get(&q->limit);
    return !counted(device) || charge(q, device, bytes, limit ? limit : UINT64_MAX);
}

void quota_charge(struct quota *q, int device, uint64_t bytes) {
    if (counted(device))
        charge(q, device, bytes, UINT64_MAX);
}

void quota_credit(struct quota *q, int device, uint64_t bytes) {
    if (!counted(device))
        return;
    word *used = &q->devices[device].used;
    uint64_t before = get(used);
    while (!atomic_compare_exchange_weak(used, &before, before < bytes ? 0 : before - bytes))
        ;
}

uint64_t quota_used(const struct quota *q, int device) {
    return counted(device) ? get(&q->devices[device].used) : 0;
}

uint64_t quota_peak(const struct quota *q, int device) {
    return counted(device) ? get(&q->devices[device].peak) : 0;
}

void quota_clear(struct quota *q) {
    for (int d = 0; d < DEVICE_MAX; d++) {
        put(&q->devices[d].used, 0);
        put(&q->devices[d].peak, 0);
    }
}
