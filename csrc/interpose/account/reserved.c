#include "interpose/account/reserved.h"

#include <stdlib.h>

#include "base/capacity.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/page.h"
#include "base/patience.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/memory.h"

struct source {
    CUmemoryPool pool; /* NULL: it was destroyed */
    int device;
    bool leaves;    /* nobody may ask for it */
    uint64_t bytes; /* as the driver told last */
    uint64_t live;  /* of it, in whole grains, what the program has not freed */
    struct source *next;
};

static struct lock lock; /* of all of this; the driver is only asked under it */
static struct source *sources;
static struct hash pieces;           /* start of what a pool gave -> struct source */
static uint64_t charged[DEVICE_MAX]; /* atomic */
static bool graphs[DEVICE_MAX];      /* some allocate there */

static bool counted(int device) {
    return device >= 0 && device < DEVICE_MAX;
}

static uint64_t pool_ask(CUmemoryPool pool, CUmemPool_attribute what, uint64_t otherwise) {
    cuuint64_t bytes;
    return REAL(cuMemPoolGetAttribute, 0)(pool, what, &bytes) == CUDA_SUCCESS ? bytes : otherwise;
}

/* Under the lock. */
static struct source **source_find(CUmemoryPool pool, bool leaves) {
    struct source **at = &sources;
    while (*at && ((*at)->pool != pool || (*at)->leaves != leaves))
        at = &(*at)->next;
    return at;
}

void reserved_know(int device, CUmemoryPool pool) {
    if (!counted(device))
        return;
    lock_take(&lock);
    struct source *s = *source_find(pool, false) ? NULL : malloc(sizeof *s);
    if (s) {
        *s = (struct source){.pool = pool, .device = device, .next = sources};
        sources = s;
    }
    lock_drop(&lock);
}

void reserved_leaves(CUmemoryPool pool) {
    lock_take(&lock);
    struct source *s = *source_find(pool, false);
    if (s)
        s->leaves = true;
    lock_drop(&lock);
}

void reserved_left(CUmemoryPool pool, bool gone) {
    lock_take(&lock);
    struct source *s = *source_find(pool, true);
    if (s)
        s->leaves = false;
    if (s && gone)
        s->pool = NULL;
    lock_drop(&lock);
}

void reserved_gave(CUmemoryPool pool, addr_t start, uint64_t bytes) {
    bool stored = false;
    lock_take(&lock);
    struct source *s = *source_find(pool, false);
    if (s)
        hash_put(&pieces, start, s, &stored);
    if (stored)
        s->live += whole_grains(bytes);
    lock_drop(&lock);
}

void reserved_freed(addr_t start, uint64_t bytes) {
    lock_take(&lock);
    struct source *s = hash_take(&pieces, start);
    if (s)
        s->live -= whole_grains(bytes);
    lock_drop(&lock);
}

void reserved_know_graphs(int device) {
    if (counted(device))
        __atomic_store_n(&graphs[device], true, __ATOMIC_RELAXED);
}

/* Under the lock. */
static void charge(int device, uint64_t now) {
    uint64_t before = charged[device];
    __atomic_store_n(&charged[device], now, __ATOMIC_RELAXED);
    if (now > before)
        ledger_charge(session.ledger, device, now - before);
    else
        ledger_credit(session.ledger, device, before - now);
}

/* Bytes that the program has not freed of what pools gave it. */
static uint64_t live(int device) {
    uint64_t bytes = 0;
    lock_take(&lock);
    for (const struct source *s = sources; s; s = s->next)
        bytes += s->device == device ? s->live : 0;
    lock_drop(&lock);
    return bytes;
}

/* Pools were destroyed that held memory. Of them the driver tells nothing. */
static bool any_gone(void) {
    bool any = false;
    lock_take(&lock);
    for (const struct source *s = sources; s; s = s->next)
        any = any || (!s->pool && s->bytes > s->live);
    lock_drop(&lock);
    return any;
}

/* Once nothing runs, a pool that was destroyed holds what the program has not freed. Under the lock. */
static void look_at(struct source *s, bool idle) {
    if (!s->pool)
        s->bytes = idle && s->live < s->bytes ? s->live : s->bytes;
    else if (!s->leaves)
        s->bytes = pool_ask(s->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, s->bytes);
}

uint64_t reserved_by_graphs(int device) {
    cuuint64_t bytes;
    bool known =
        __atomic_load_n(&graphs[device], __ATOMIC_RELAXED) &&
        REAL(cuDeviceGetGraphMemAttribute, 0)(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes) == CUDA_SUCCESS;
    return known ? bytes : 0;
}

/* most_ns: how long the driver may take to say that nothing runs. */
static void look(int device, uint64_t most_ns) {
    if (!session_on || !counted(device))
        return;
    bool idle = any_gone() && context_idle((CUcontext)(uintptr_t)context_current(), most_ns) == CUDA_SUCCESS;
    lock_take(&lock);
    uint64_t before = charged[device], now = reserved_by_graphs(device);
    for (struct source **at = &sources, *s; (s = *at);) {
        if (s->device == device) {
            look_at(s, idle);
            now += s->bytes;
        }
        if (s->pool || s->live || s->bytes) {
            at = &s->next;
        } else {
            *at = s->next;
            free(s);
        }
    }
    if (now != before)
        charge(device, now);
    lock_drop(&lock);
    if (now != before)
        memory_publish(device);
}

void reserved_look(int device) {
    look(device, 0);
}

void reserved_look_again(int device, bool waited) {
    if (counted(device) && __atomic_load_n(&charged[device], __ATOMIC_RELAXED))
        look(device, waited ? PATIENCE_GATED_NS : 0);
}

/* --- room under a limit --- */

uint64_t reserved_unused(CUmemoryPool pool) {
    uint64_t held = pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0);
    uint64_t used = pool_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, held);
    lock_take(&lock);
    const struct source *s = *source_find(pool, false);
    used = s && s->live > used ? s->live : used;
    lock_drop(&lock);
    return held > used ? held - used : 0;
}

/* A pool gives back what was freed when the program waits for anything: here for an event that nothing is before. */
static void wait_for_nothing(void) {
    CUevent event;
    if (REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return;
    REAL(cuEventSynchronize, 0)(event);
    REAL(cuEventDestroy_v2, 0)(event);
}

void reserved_give_back(int device) {
    struct relaxed relaxed = capture_relax();
    if (capture_allows(relaxed)) {
        wait_for_nothing();
        lock_take(&lock);
        for (const struct source *s = sources; s; s = s->next)
            if (s->device == device && s->pool && !s->leaves)
                REAL(cuMemPoolTrimTo, 0)(s->pool, 0);
        if (graphs[device])
            REAL(cuDeviceGraphMemTrim, 0)(device);
        lock_drop(&lock);
    }
    capture_restore(relaxed);
    reserved_look(device);
}

/* Bytes in flight would be enough, and may come back. */
static bool may_come_back(int device, uint64_t bytes) {
    uint64_t held = __atomic_load_n(&charged[device], __ATOMIC_RELAXED), kept = live(device);
    uint64_t others = ledger_plain(session.ledger, device) - held;
    return held > kept && others + kept + bytes <= capacity_of(device) &&
           context_idle((CUcontext)(uintptr_t)context_current(), 0) == CUDA_ERROR_NOT_READY;
}

bool reserved_make_room(int device, enum memory_kind kind, uint64_t bytes) {
    struct patience patience = {.what = PATIENCE_WISH};
    if (ledger_reserve(session.ledger, device, bytes))
        return true;
    if (bytes > capacity_of(device) || !counted(device))
        return false;
    for (bool waits = true; waits;) {
        waits = ledger_promised(session.ledger, device) || (kind == MEMORY_ASYNC && may_come_back(device, bytes));
        reserved_give_back(device);
        if (ledger_reserve(session.ledger, device, bytes))
            return true;
        waits = waits && patience_rest(&patience);
    }
    return false;
}
