/* Memory behind a handle, for which addresses of its size are reserved next, as XLA allocates. */
#include "random_program.h"

#include <stdlib.h>
#include <string.h>

enum { GRANULE = 2 * MIB };

/* Not counted: not all programs of a seed make the same. */
#define OWN(f, ...) driver_check(POLL(f, __VA_ARGS__), #f, __FILE__, __LINE__)

/* A library that makes handles late makes the program's then in another call, which is not spared. Under um handles do
 * not move, and a limit is kept: plain memory stands in for them. */
static bool no_handles(void) {
    const char *fail = getenv("EMU_FAIL"), *backend = getenv("ULMS_BACKEND");
    return (fail && strstr(fail, "cuMemCreate")) || (backend && strcmp(backend, "um") == 0);
}

static void map(const struct block *b, CUdevice device) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OWN(cuMemMap, b->start, b->bytes, 0, b->handle, 0);
    OWN(cuMemSetAccess, b->start, b->bytes, &access, 1);
}

void handle_make(struct actor *a, struct block *b) {
    bool aligned = one_in(a, 2), keeps = one_in(a, 2), again = one_in(a, 3);
    CUdevice device;
    b->bytes = (b->bytes + GRANULE - 1) / GRANULE * GRANULE;
    if (no_handles()) {
        OWN(cuMemAlloc_v2, &b->start, b->bytes);
        return;
    }
    OWN(cuCtxGetDevice, &device);
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    OWN(cuMemCreate, &b->handle, b->bytes, &prop, 0);
    OWN(cuMemAddressReserve, &b->start, b->bytes, aligned ? GRANULE : 0, 0, 0);
    map(b, device);
    if (keeps && again) { /* with its content */
        OWN(cuMemUnmap, b->start, b->bytes);
        map(b, device);
    } else if (!keeps) { /* it lives until it is unmapped */
        OWN(cuMemRelease, b->handle);
        b->handle = 0;
    }
}

void handle_free(struct actor *a, struct block *b, uint32_t form) {
    host_wait_uses(a, b, false);
    if (no_handles()) {
        OWN(cuMemFree_v2, b->start);
        return;
    }
    if (b->handle && form % 2)
        OWN(cuMemRelease, b->handle);
    OWN(cuMemUnmap, b->start, b->bytes);
    if (b->handle && form % 2 == 0)
        OWN(cuMemRelease, b->handle);
    OWN(cuMemAddressFree, b->start, b->bytes);
}
