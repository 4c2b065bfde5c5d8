/* Managed memory in the place of plain memory. */
#include "backend/um.h"

#include "backend/backend.h"
#include "base/log.h"
#include "interpose/session.h"
#include "interpose/wrap.h"
#include "observe/stats.h"

enum serves { UNASKED, SERVED, UNSERVED };

/* Where the CPU and the device may not use managed memory at the same time, the driver neither moves it on request nor
 * lets it exceed the device. */
static enum serves ask(int32_t device) {
    int can = 0;
    if (REAL(cuDeviceGetAttribute, 0)(&can, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) == CUDA_SUCCESS &&
        can)
        return SERVED;
    log_warn("device %d has no concurrent access to managed memory: nothing is replaced there, as with "
             "ULMS_BACKEND=observe",
             device);
    return UNSERVED;
}

static bool serves(int32_t device) {
    static enum serves known[DEVICE_MAX];
    if (device < 0 || device >= DEVICE_MAX)
        return false;
    enum serves now = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (now == UNASKED) {
        now = ask(device);
        __atomic_store_n(&known[device], now, __ATOMIC_RELAXED);
    }
    return now == SERVED;
}

static bool provide(addr_t *start, uint64_t bytes, int32_t device) {
    CUdeviceptr made = 0;
    (void)device;
    struct um_visit v = um_enter(NULL); /* another thread's capture stays what it is */
    bool done = REAL(cuMemAllocManaged, 0)(&made, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;
    um_leave(v);
    *start = made;
    return done;
}

/* Not where the driver does not tell its context: a stream could be of one that is gone. */
bool um_bring(struct um_device *d, addr_t start, uint64_t bytes) {
    struct um_visit v = um_enter(NULL);
    CUcontext context = um_current();
    um_lock(d);
    CUstream stream = d->place_context == context ? d->place_stream : NULL;
    um_unlock(d);
    if (!stream && context && (stream = um_stream_new())) {
        um_lock(d);
        d->place_context = context;
        d->place_stream = stream;
        um_unlock(d);
    }
    bool there = context && stream && um_prefetch(start, bytes, d->ordinal, stream) && um_stream_finish(stream);
    um_leave(v);
    return there;
}

/* The program's own managed memory lies where the program's use of it brings it. */
static bool may_place(addr_t start) {
    struct allocation a;
    return ledger_find(session.ledger, start, &a) && a.kind != MEMORY_MANAGED;
}

static void place(struct um_device *d, addr_t start, uint64_t bytes, bool fits) {
    if (!fits || !may_place(start) || !um_bring(d, start, bytes))
        return;
    stats_add(COUNT_placed_bytes, bytes);
    um_lock(d);
    ulms_engine_placed(d->engine, start, bytes);
    um_unlock(d);
}

static uint64_t occupied(const struct um_device *d) {
    struct ulms_engine_stats now = {0};
    if (d->engine)
        ulms_engine_stats(d->engine, &now);
    return now.resident_bytes;
}

/* One thread prefetches to an H200 at 28 GB/s, two at 39, four at 49, but two each way beat one and four; to the host
 * one is as fast as eight (24 GB/s). */
const struct um_kind um_managed = {.managed = true,
                                   .over = "is left to the driver's own paging",
                                   .movers = {3, {ULMS_LANE_IN, ULMS_LANE_IN, ULMS_LANE_OUT}},
                                   .place = place,
                                   .occupied = occupied,
                                   .issue = um_move_issue,
                                   .touches = um_touches};

const struct backend backend_um = {.name = "um",
                                   .admit = um_admit,
                                   .settle = um_settle,
                                   .serves = serves,
                                   .provide = provide,
                                   .arrived = um_arrived,
                                   .plain = um_plain,
                                   .leaving = um_leaving,
                                   .block = um_block,
                                   .forget = um_forget,
                                   .stop = um_stop};
