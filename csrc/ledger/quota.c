#include "base/page.h"
#include "ledger/state.h"

static bool counted(int device) {
    return device >= 0 && device < DEVICE_MAX;
}

/* Adds bytes unless there would then be more than limit; 0: no limit. At no instant are there more. */
static bool add_within(word *held, uint64_t bytes, uint64_t limit) {
    uint64_t before = get(held), most = limit ? limit : UINT64_MAX;
    do {
        if (bytes > most || before > most - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(held, &before, before + bytes));
    return true;
}

/* Never below 0. */
static void lower(word *held, uint64_t bytes) {
    uint64_t before = get(held);
    while (!atomic_compare_exchange_weak(held, &before, before < bytes ? 0 : before - bytes))
        ;
}

/* --- plain memory --- */

void ledger_limit(struct ledger *l, int device, uint64_t bytes) {
    put(&l->quota.devices[device].limit, bytes);
}

bool ledger_reserve(struct ledger *l, int device, uint64_t bytes) {
    return !counted(device) ||
           add_within(&l->quota.devices[device].claimed, bytes, get(&l->quota.devices[device].limit));
}

void ledger_commit(struct ledger *l, int device, uint64_t bytes) {
    if (counted(device))
        atomic_fetch_add(&l->quota.devices[device].plain, bytes);
    ledger_commit_managed(l, device, bytes);
}

void ledger_cancel(struct ledger *l, int device, uint64_t bytes) {
    if (counted(device))
        lower(&l->quota.devices[device].claimed, bytes);
}

bool ledger_promised(const struct ledger *l, int device) {
    return counted(device) && get(&l->quota.devices[device].claimed) > get(&l->quota.devices[device].plain);
}

void ledger_charge(struct ledger *l, int device, uint64_t bytes) {
    if (counted(device) && add_within(&l->quota.devices[device].claimed, bytes, 0))
        ledger_commit(l, device, bytes);
}

void ledger_credit(struct ledger *l, int device, uint64_t bytes) {
    ledger_credit_managed(l, device, bytes);
    if (counted(device))
        lower(&l->quota.devices[device].plain, bytes);
    ledger_cancel(l, device, bytes);
}

uint64_t ledger_used(const struct ledger *l, int device) {
    return counted(device) ? get(&l->quota.devices[device].used) : 0;
}

uint64_t ledger_plain(const struct ledger *l, int device) {
    return counted(device) ? get(&l->quota.devices[device].plain) : 0;
}

uint64_t ledger_peak(const struct ledger *l, int device) {
    return counted(device) ? get(&l->quota.devices[device].peak) : 0;
}

/* --- managed memory --- */

static bool take_pages(struct quota *q, uint64_t bytes, uint64_t limit) {
    uint64_t pages = whole_pages(bytes);
    return pages >= bytes && add_within(&q->managed, pages, limit);
}

void ledger_limit_managed(struct ledger *l, uint64_t bytes) {
    put(&l->quota.managed_limit, bytes);
}

bool ledger_reserve_managed(struct ledger *l, uint64_t bytes) {
    return take_pages(&l->quota, bytes, get(&l->quota.managed_limit));
}

bool ledger_charge_managed(struct ledger *l, uint64_t bytes) {
    return take_pages(&l->quota, bytes, 0);
}

void ledger_cancel_managed(struct ledger *l, uint64_t bytes) {
    lower(&l->quota.managed, whole_pages(bytes));
}

void ledger_commit_managed(struct ledger *l, int device, uint64_t bytes) {
    if (!counted(device))
        return;
    word *peak = &l->quota.devices[device].peak;
    uint64_t now = atomic_fetch_add(&l->quota.devices[device].used, bytes) + bytes, most = get(peak);
    while (most < now && !atomic_compare_exchange_weak(peak, &most, now))
        ;
}

void ledger_credit_managed(struct ledger *l, int device, uint64_t bytes) {
    if (counted(device))
        lower(&l->quota.devices[device].used, bytes);
}

uint64_t ledger_managed(const struct ledger *l) {
    return get(&l->quota.managed);
}

/* --- all memory --- */

void ledger_freed(struct ledger *l, const struct allocation *gone) {
    if (gone->managed)
        ledger_cancel_managed(l, gone->charged);
    else
        ledger_credit(l, gone->device, gone->charged);
}

void quota_clear(struct quota *q) {
    put(&q->managed, 0);
    for (int d = 0; d < DEVICE_MAX; d++) {
        put(&q->devices[d].claimed, 0);
        put(&q->devices[d].plain, 0);
        put(&q->devices[d].used, 0);
        put(&q->devices[d].peak, 0);
    }
}
