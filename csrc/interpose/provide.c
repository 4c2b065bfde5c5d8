#include "interpose/provide.h"

#include "base/options.h"
#include "base/page.h"
#include "interpose/caller.h"
#include "interpose/capture.h"
#include "interpose/later.h"
#include "interpose/session.h"

enum { PITCH_ALIGN = 512, SMALL_BYTES = 2 << 20, SMALL_SHARE = 64 };

static uint64_t room[DEVICE_MAX];

bool provided(const struct allocation *a) {
    return a->managed && a->kind != MEMORY_MANAGED;
}

bool provided_at(addr_t address, struct allocation *out) {
    return session_on && ledger_managed(session.ledger) && ledger_find(session.ledger, address, out) && provided(out);
}

uint64_t provide_room(int device) {
    return device >= 0 && device < DEVICE_MAX ? __atomic_load_n(&room[device], __ATOMIC_RELAXED) : 0;
}

uint64_t provide_held(int device) {
    return session_on && session.backend->held ? session.backend->held(device) : 0;
}

static void measure_room(int device) {
    size_t free_bytes;
    uint64_t plain = ledger_plain(session.ledger, device);
    if ((ledger_managed(session.ledger) == 0 || !provide_room(device)) &&
        REAL(cuMemGetInfo_v2, 0)(&free_bytes, NULL) == CUDA_SUCCESS) {
        __atomic_store_n(&room[device], plain + free_bytes + provide_held(device), __ATOMIC_RELAXED);
    }
}

/* What is small is used by many operations and moves little; the driver takes microseconds longer to issue a memset or
 * a copy of the host's where it is managed. As long as it takes next to nothing of the device. */
static bool small(int device, uint64_t bytes) {
    if (bytes > SMALL_BYTES)
        return false;
    measure_room(device);
    uint64_t room = ulms_options.capacity ? ulms_options.capacity : provide_room(device);
    return ledger_plain(session.ledger, device) + bytes <= room / SMALL_SHARE;
}

/* A smaller allocation than half a page would waste most of the whole pages it gets; the driver puts many of those into
 * one page. The driver refuses managed memory to a thread whose own stream captures. */
static bool wanted(int device, uint64_t bytes) {
    return bytes >= page_bytes / 2 && whole_pages(bytes) && session.backend->serves(device) && !capture_mine() &&
           !caller_stays_plain() && !small(device, bytes);
}

static bool take(struct claim *c, uint64_t bytes, CUdeviceptr *dptr) {
    addr_t start;
    if (!session.backend->provide(&start, whole_pages(bytes), c->device))
        return false;
    *dptr = start;
    return true;
}

bool provide(struct claim *c, enum memory_kind kind, uint64_t bytes, CUdeviceptr *dptr) {
    int device = session_device();
    if (!session_on || !dptr || !wanted(device, bytes))
        return false;
    uint64_t context = session_context();
    if (!context) /* nobody could wait for it before a free */
        return false;
    if (later_reuse(c, device, kind, bytes, dptr))
        return true;
    measure_room(device);
    if (!claim_open_managed(c, device, kind, bytes))
        return ulms_options.managed_limit > 0;
    c->context = context;
    bool taken = take(c, bytes, dptr);
    claim_close(c, taken ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, dptr, bytes);
    return taken;
}

bool provide_pitch(struct claim *c, CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element) {
    size_t row = (width + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN, bytes;
    bool valid = pitch && width && row >= width && (element == 4 || element == 8 || element == 16);
    if (!valid || __builtin_mul_overflow(row, height, &bytes) || !provide(c, MEMORY_PITCH, bytes, dptr))
        return false;
    if (c->status == CUDA_SUCCESS)
        *pitch = row;
    return true;
}
