/* Memory behind a handle, for which addresses of its size are reserved next, as XLA allocates. */
#include "random_program.h"

#include <stdlib.h>
#include <string.h>

enum { GRANULE = 2 * MIB };

/* A library that makes handles late makes the program's then in another call, which is not spared. */
static bool handles_fail(void) {
    const char *fail = getenv("EMU_FAIL");
    return fail && strstr(fail, "cuMemCreate");
}

void handle_make(struct actor *a, struct block *b) {
    b->bytes = (b->bytes + GRANULE - 1) / GRANULE * GRANULE;
    b->handle = 0;
    if (handles_fail()) {
        CU(cuMemAlloc_v2, &b->start, b->bytes);
        return;
    }
    CUdevice device;
    CU(cuCtxGetDevice, &device);
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemCreate, &b->handle, b->bytes, &prop, 0);
    CU(cuMemAddressReserve, &b->start, b->bytes, one_in(a, 2) ? GRANULE : 0, 0, 0);
    CU(cuMemMap, b->start, b->bytes, 0, b->handle, 0);
    CU(cuMemSetAccess, b->start, b->bytes, &access, 1);
    if (one_in(a, 2)) { /* it lives until it is unmapped */
        CU(cuMemRelease, b->handle);
        b->handle = 0;
    } else if (one_in(a, 3)) { /* it keeps its content */
        CU(cuMemUnmap, b->start, b->bytes);
        CU(cuMemMap, b->start, b->bytes, 0, b->handle, 0);
        CU(cuMemSetAccess, b->start, b->bytes, &access, 1);
    }
}

void handle_free(struct actor *a, struct block *b, uint32_t form) {
    host_wait_uses(a, b, false);
    if (handles_fail()) {
        CU(cuMemFree_v2, b->start);
        return;
    }
    if (b->handle && form % 2)
        CU(cuMemRelease, b->handle);
    CU(cuMemUnmap, b->start, b->bytes);
    if (b->handle && form % 2 == 0)
        CU(cuMemRelease, b->handle);
    CU(cuMemAddressFree, b->start, b->bytes);
}
