#include "interpose/replace/provide.h"

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/options.h"
#include "base/page.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/replace/caller_policy.h"

enum { PITCH_ALIGN = 512, SMALL_BYTES = 2 << 20 };

/* Of what the device has, one part in so many may be plain memory: beyond it what is small is provided, too. */
enum { SMALL_SHARE = 64, PACKED_SHARE = 8 };

static uint64_t room[DEVICE_MAX];

bool provided(const struct allocation *a) {
    return a->managed && a->kind != MEMORY_MANAGED;
}

bool provided_at(addr_t address, struct allocation *out) {
    return session_on && ledger_managed(session.ledger) && ledger_find(session.ledger, address, out) && provided(out);
}

bool provided_before(addr_t address, struct allocation *out) {
    return !session_on && session.ledger && ledger_find(session.ledger, address, out) && provided(out);
}

uint64_t provide_room(int device) {
    return device >= 0 && device < DEVICE_MAX ? __atomic_load_n(&room[device], __ATOMIC_RELAXED) : 0;
}

uint64_t provide_held(int device) {
    return session_on && session.backend->held ? session.backend->held(device) : 0;
}

/* The driver's answer lacks managed memory. */
static bool may_measure(int device) {
    return ledger_managed(session.ledger) == 0 || !provide_room(device);
}

/* Another thread may get managed memory while the driver is asked. */
static void measure_room(int device) {
    size_t free_bytes;
    uint64_t plain = ledger_plain(session.ledger, device);
    if (may_measure(device) && REAL(cuMemGetInfo_v2, 0)(&free_bytes, NULL) == CUDA_SUCCESS && may_measure(device))
        __atomic_store_n(&room[device], plain + free_bytes + provide_held(device), __ATOMIC_RELAXED);
}

static bool is_little(int device, uint64_t bytes, uint64_t one_in) {
    if (!provide_room(device))
        measure_room(device);
    uint64_t most = provide_room(device), capacity = capacity_of(device);
    most = capacity && capacity < most ? capacity : most;
    return ledger_plain(session.ledger, device) + bytes <= most / one_in;
}

/* What is smaller than half a grain would waste most of it, and the driver puts many of those into one. What is smaller
 * than half a page would be moved for its neighbours' sake. The driver refuses managed memory to a thread whose own
 * stream captures. */
static bool wanted(int device, uint64_t bytes) {
    return bytes >= PAGE_LEAST / 2 && whole_pages(bytes) && session.backend->serves(device) && !capture_mine() &&
           !(bytes < page_bytes / 2 && is_little(device, bytes, PACKED_SHARE)) && !caller_stays_plain();
}

bool provide_stays_plain(uint64_t bytes) {
    int device = context_device();
    return session_on && bytes <= SMALL_BYTES && bytes >= page_bytes / 2 && session.backend->serves(device) &&
           is_little(device, bytes, SMALL_SHARE);
}

uint64_t provide_context(int device, uint64_t bytes) {
    uint64_t context = wanted(device, bytes) ? context_current() : 0; /* without one nobody could wait before a free */
    if (context)
        measure_room(device);
    return context;
}

bool provide_addresses(addr_t *start, uint64_t bytes, int device) {
    return session.backend->provide(start, whole_grains(bytes), device);
}

static bool provided_take(struct charge *c, uint64_t bytes, CUdeviceptr *dptr) {
    addr_t start;
    if (!provide_addresses(&start, bytes, c->device))
        return false;
    *dptr = start;
    return true;
}

static bool give(struct charge *c, enum memory_kind kind, uint64_t bytes, const struct stream_order *order,
                 CUdeviceptr *dptr) {
    int device = context_device();
    uint64_t context = session_on && dptr ? provide_context(device, bytes) : 0;
    if (!context)
        return false;
    if (deferred_reuse(c, device, kind, bytes, order, dptr))
        return true;
    if (session.backend->crowded(device, whole_grains(bytes)))
        deferred_free_unused();
    if (!charge_open_managed(c, device, kind, bytes))
        return ulms_options.managed_limit > 0;
    c->context = context;
    bool taken = provided_take(c, bytes, dptr);
    charge_close(c, taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, dptr, bytes);
    return taken;
}

bool provide(struct charge *c, enum memory_kind kind, uint64_t bytes, CUdeviceptr *dptr) {
    return give(c, kind, bytes, NULL, dptr);
}

bool provide_in_order(struct charge *c, uint64_t bytes, struct stream_order order, CUdeviceptr *dptr) {
    return give(c, MEMORY_ASYNC, bytes, &order, dptr);
}

uint64_t provide_pitched(uint64_t width, uint64_t height) {
    uint64_t row = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN, bytes;
    return row < width || __builtin_mul_overflow(row, height, &bytes) ? UINT64_MAX : bytes;
}

bool provide_pitch(struct charge *c, CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element) {
    uint64_t bytes = provide_pitched(width, height);
    bool valid = pitch && bytes && bytes != UINT64_MAX && (element == 4 || element == 8 || element == 16);
    if (!valid || !provide(c, MEMORY_PITCH, bytes, dptr))
        return false;
    if (c->status == CUDA_SUCCESS)
        *pitch = bytes / height;
    return true;
}
