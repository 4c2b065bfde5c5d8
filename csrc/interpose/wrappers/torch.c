/* PyTorch's caching allocator tells its profiler of every tensor it hands out and takes back: exact blocks. Others are
 * told by name (ulms.h). */
#include "base/hot.h"
#include "driver/capture.h"
#include "driver/elf.h"
#include "driver/fast_path.h"
#include "driver/session.h"
#include "observe/stats.h"
#include "observe/trace.h"
#include "ulms.h"

#define REPORT   _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

struct c10_device {
    int8_t type;
    int8_t index;
};
enum { C10_CUDA = 1 };

typedef void (*report_function)(void *, int64_t, size_t, size_t, struct c10_device);

/* c10::reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated, size_t total_reserved,
 * Device): alloc_size is negative for memory taken back. */
__attribute__((visibility("default"))) void REPORT(void *pointer, int64_t bytes, size_t allocated, size_t reserved,
                                                   struct c10_device device);

static HOT void unheard(void *pointer, int64_t bytes, size_t allocated, size_t reserved, struct c10_device device) {
    (void)pointer, (void)bytes, (void)allocated, (void)reserved, (void)device;
}

static SELDOM report_function search(void) {
    report_function f = (report_function)elf_next(TEXT(REPORT));
    if (!f)
        return unheard;
    real_keep((void *)f);
    return f;
}

static HOT report_function real_report(void) {
    static HOT_DATA report_function known;
    report_function f = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (__builtin_expect(!f, 0)) {
        f = search();
        __atomic_store_n(&known, f, __ATOMIC_RELAXED);
    }
    return f;
}

static inline bool is_block(const void *pointer, int64_t bytes, struct c10_device device) {
    return device.type == C10_CUDA && pointer && bytes;
}

/* While nobody asks for blocks, the ledger alone hears of them. */
static inline bool tell_later(addr_t start, int64_t bytes) {
    return bytes > 0 ? ledger_block_add_later(session.ledger, start, (uint64_t)bytes)
                     : ledger_block_remove_later(session.ledger, start);
}

static HOT __attribute__((noinline)) void tell(addr_t start, int64_t bytes) {
    uint64_t size = (uint64_t)(bytes > 0 ? bytes : -bytes);
    if (session.block_before)
        session.block_before();
    if (bytes > 0) {
        if (__builtin_expect(fast_path_blocked() & SLOW_FRAMEWORK, 0))
            fast_path_restore(SLOW_FRAMEWORK);
        (capture_any() ? ledger_block_captured : ledger_block_add)(session.ledger, start, size);
    } else if (!ledger_block_remove(session.ledger, start)) {
        size = 0; /* others are there: it went before, and nobody told */
    }
    if (session.block)
        session.block(start, size, bytes > 0);
    if (trace_on && size)
        trace_block(start, size, bytes > 0);
}

static HOT void tell_counted(addr_t start, int64_t bytes) {
    tell(start, bytes);
    if (bytes > 0)
        stats_add(COUNT_blocks, 1);
}

static HOT __attribute__((noinline)) void report_looked_at(void *pointer, int64_t bytes, size_t allocated,
                                                           size_t reserved, struct c10_device device) {
    addr_t start = (addr_t)(uintptr_t)pointer;
    bool ours = !home_left() && session_on && session.hears_blocks && is_block(pointer, bytes, device);
    if (ours) {
        ledger_block_foresee(session.ledger, start);
        stats_foresee();
    }
    real_report()(pointer, bytes, allocated, reserved, device);
    if (ours)
        tell_counted(start, bytes);
}

HOT void REPORT(void *pointer, int64_t bytes, size_t allocated, size_t reserved, struct c10_device device) {
    addr_t start = (addr_t)(uintptr_t)pointer;
    if (!fast_path_but_for_tables()) {
        report_looked_at(pointer, bytes, allocated, reserved, device);
        return;
    }
    ledger_pending_foresee(session.ledger, start);
    real_report()(pointer, bytes, allocated, reserved, device);
    if (!is_block(pointer, bytes, device))
        return;
    if (!tell_later(start, bytes))
        tell(start, bytes);
    if (bytes > 0)
        stats_add(COUNT_blocks, 1);
}

void ulms_block(uint64_t start, int64_t bytes) {
    if (!home_left() && session_on && session.hears_blocks && start && bytes)
        tell_counted(start, bytes);
}
