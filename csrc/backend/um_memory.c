/* Managed memory in the place of plain memory. */
#include "backend/um.h"

#include "base/log.h"
#include "interpose/wrap.h"

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

bool um_serves(int32_t device) {
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

bool um_provide(addr_t *start, uint64_t bytes, int32_t device) {
    CUdeviceptr made = 0;
    (void)device;
    struct um_visit v = um_enter(NULL); /* another thread's capture stays what it is */
    bool done = REAL(cuMemAllocManaged, 0)(&made, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;
    um_leave(v);
    *start = made;
    return done;
}
