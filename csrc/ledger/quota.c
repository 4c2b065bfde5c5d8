#include "ledger/quota.h"

#include "base/page.h"

static bool counted(int device) {
    return device >= 0 && device < DEVICE_MAX;
}

/* Adds bytes unless there would then be more than limit; 0: no limit. */
static bool add_within(word *held, uint64_t bytes, uint64_t limit) {
    uint64_t before = get(held), most = limit ? limit : UINT64_MAX;
    do {
        if (bytes > most || before > most - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(held, &before, before + bytes));
    return true;
}

static void lower(word *held, uint64_t bytes) {
    uint64_t before = get(held);
    while (!atomic_compare_exchange_weak(held, &before, before < bytes ? 0 : before - bytes))
        ;
}

static void count(struct quota *q, int device, uint64_t bytes) {
    word *peak = &q->devices[device].peak;
    uint64_t now = atomic_fetch_add(&q->devices[device].used, bytes) + bytes, most = get(peak);
    while (most < now && !atomic_compare_exchange_weak(peak, &most, now))
        ;
}

bool quota_reserve(struct quota *q, int device, uint64_t bytes) {
    return !counted(device) || add_within(&q->devices[device].claimed, bytes, get(&q->devices[device].limit));
}

void quota_commit(struct quota *q, int device, uint64_t bytes) {
    if (!counted(device))
        return;
    atomic_fetch_add(&q->devices[device].plain, bytes);
    count(q, device, bytes);
}

void quota_cancel(struct quota *q, int device, uint64_t bytes) {
    if (counted(device))
        lower(&q->devices[device].claimed, bytes);
}

bool quota_promised(const struct quota *q, int device) {
    return counted(device) && get(&q->devices[device].claimed) > get(&q->devices[device].plain);
}

void quota_charge(struct quota *q, int device, uint64_t bytes, bool managed) {
    if (!counted(device) || (!managed && !add_within(&q->devices[device].claimed, bytes, 0)))
        return;
    if (managed)
        count(q, device, bytes);
    else
        quota_commit(q, device, bytes);
}

void quota_credit(struct quota *q, int device, uint64_t bytes, bool managed) {
    if (!counted(device))
        return;
    lower(&q->devices[device].used, bytes);
    if (managed)
        return;
    lower(&q->devices[device].plain, bytes);
    quota_cancel(q, device, bytes);
}

uint64_t quota_used(const struct quota *q, int device) {
    return counted(device) ? get(&q->devices[device].used) : 0;
}

uint64_t quota_plain(const struct quota *q, int device) {
    return counted(device) ? get(&q->devices[device].plain) : 0;
}

uint64_t quota_peak(const struct quota *q, int device) {
    return counted(device) ? get(&q->devices[device].peak) : 0;
}

static bool take_pages(struct quota *q, uint64_t bytes, uint64_t limit) {
    uint64_t pages = whole_pages(bytes);
    return pages >= bytes && add_within(&q->managed, pages, limit);
}

bool quota_take_pages(struct quota *q, uint64_t bytes) {
    return take_pages(q, bytes, get(&q->managed_limit));
}

bool quota_take_any_pages(struct quota *q, uint64_t bytes) {
    return take_pages(q, bytes, 0);
}

void quota_give_pages(struct quota *q, uint64_t bytes) {
    lower(&q->managed, whole_pages(bytes));
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
