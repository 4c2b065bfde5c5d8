/* What the tests of the remapping backend's parts share: the driver without the interposition, a device, pages. */
#ifndef ULMS_TESTS_VMM_DEVICE_H
#define ULMS_TESTS_VMM_DEVICE_H

#include "emu_api.h"

#include "backend/vmm/vmm.h"

#include <dlfcn.h>

void *api_real[API_COUNT][2];

void *real_first(enum api api, int variant) {
    static const char *const names[] = {
#define NAME(symbol) [API_##symbol] = #symbol
        NAME(cuMemCreate),          NAME(cuMemRelease),        NAME(cuMemMap),         NAME(cuMemUnmap),
        NAME(cuMemSetAccess),       NAME(cuMemAddressReserve), NAME(cuMemAddressFree), NAME(cuMemcpyAsync),
        NAME(cuStreamSynchronize),  NAME(cuDeviceTotalMem_v2), NAME(cuDeviceGetCount), NAME(cuMemHostRegister_v2),
        NAME(cuMemcpyHtoDAsync_v2), NAME(cuMemcpyDtoHAsync_v2)
#undef NAME
    };
    (void)variant;
    return dlsym(RTLD_DEFAULT, names[api]);
}

enum { PAGES = 8, BYTES = PAGES * PAGE_LEAST, WORDS = PAGE_LEAST / 4 };

static const CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};

static struct vmm v;

static struct frames_limit host_limit = FRAMES_LIMIT_NONE;

static inline void open_device(uint64_t host_bytes) {
    begin();
    frames_limit_set(&host_limit, host_bytes);
    CHECK(vmm_open(&v, 0, host, &host_limit));
}

static inline void range_delete(struct vmm_range *r) {
    if (vmm_range_empty(&v, r, 0, r->bytes / PAGE_LEAST))
        vmm_range_delete(&v, r);
}

static inline struct vmm_range *range_new(uint64_t bytes, bool device, size_t spare) {
    struct vmm_range *r = vmm_range_new(&v, bytes);
    if (!r || vmm_range_fill(&v, r, 0, bytes / PAGE_LEAST, device, spare))
        return r;
    range_delete(r);
    return NULL;
}

static inline uint64_t used_on_device(void) {
    uint64_t used, total;
    CHECK(emu_device_memory(0, &used, &total) == 0);
    return used;
}

static inline uint64_t idle(enum vmm_place place) {
    return v.pool[place].frames.free;
}

static inline void write_page(const struct vmm_range *r, size_t page, unsigned value) {
    OK(cuMemsetD32_v2(r->start + page * PAGE_LEAST, value, WORDS));
    OK(cuCtxSynchronize());
}

static inline unsigned first_word(const struct vmm_range *r, size_t page) {
    unsigned word, last;
    OK(cuMemcpyDtoH_v2(&word, r->start + page * PAGE_LEAST, 4));
    OK(cuMemcpyDtoH_v2(&last, r->start + (page + 1) * PAGE_LEAST - 4, 4));
    CHECK_EQ(word, last);
    return word;
}

#endif
