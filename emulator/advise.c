/* Advice on managed memory, and what is asked about it. */
#include "cost.h"
#include "managed.h"
#include "pages.h"

#include <string.h>

struct advice {
    CUmem_advise advice;
    int place;
    uint64_t slow; /* bytes on the host whose mappings the driver changes */
};

static void advise_page(struct page *p, struct advice *d) {
    unsigned bit = 1u << (d->place == EMU_HOST ? DEVICES_MAX : d->place), accessed_by = p->accessed_by;
    bool read_mostly = p->read_mostly;
    int preferred = p->preferred;
    switch (d->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
        p->read_mostly = true;
        break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: /* of several copies the host's stays */
        p->read_mostly = false;
        if (p->frames)
            page_keep_only(p, p->on_host ? NULL : p->frames);
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        p->preferred = d->place;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        p->preferred = EMU_UNKNOWN;
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        p->accessed_by |= bit;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        p->accessed_by &= ~bit;
        break;
    }
    bool changed = (p->read_mostly && !read_mostly) || p->preferred != preferred || p->accessed_by != accessed_by;
    d->slow += changed && p->on_host ? p->bytes : 0;
}

static bool is_managed(struct area *a, uint64_t start, uint64_t end, void *data) {
    return a->kind == AREA_MANAGED;
}

static bool advise_area(struct area *a, uint64_t start, uint64_t end, void *data) {
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++)
        advise_page(p, data);
    pthread_mutex_unlock(&pages_lock);
    return true;
}

static CUresult check(uint64_t start, uint64_t bytes) {
    bool covered = false;
    INVALID_IF(!bytes || !area_visit(start, bytes, &covered, is_managed, NULL) || !covered);
    return CUDA_SUCCESS;
}

static CUresult advise(uint64_t start, uint64_t bytes, CUmem_advise advice, int place) {
    bool places = advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    INVALID_IF(advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY);
    if (places && place != EMU_HOST)
        CHECK_DEVICE(place);
    TRY(check(start, bytes));
    struct advice d = {.advice = advice, .place = places ? place : EMU_HOST};
    area_visit(start, bytes, NULL, advise_area, &d);
    cost_call((double)d.slow * rate(RATE_ADVISE_HOST));
    return CUDA_SUCCESS;
}

CALL(cuMemAdvise, CALL_CONTEXT, CUdeviceptr start, size_t bytes, CUmem_advise advice, CUdevice device) {
    return advise(start, bytes, advice, device == CU_DEVICE_CPU ? EMU_HOST : device);
}

CALL(cuMemAdvise_v2, CALL_CONTEXT, CUdeviceptr start, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    return advise(start, bytes, advice, location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : EMU_HOST);
}

/* --- questions --- */

/* What all pages of a range have in common. */
struct summary {
    bool any, read_mostly;
    int preferred, last_prefetch; /* EMU_UNKNOWN: none, or not all the same */
    unsigned accessed_by;
};

static void sum_page(struct page *p, struct summary *s) {
    if (!s->any) {
        s->any = s->read_mostly = true;
        s->preferred = p->preferred;
        s->last_prefetch = p->last_prefetch;
        s->accessed_by = UINT32_MAX;
    }
    s->read_mostly = s->read_mostly && p->read_mostly;
    s->accessed_by &= p->accessed_by;
    s->preferred = p->preferred == s->preferred ? p->preferred : EMU_UNKNOWN;
    s->last_prefetch = p->last_prefetch == s->last_prefetch ? p->last_prefetch : EMU_UNKNOWN;
}

static bool sum_area(struct area *a, uint64_t start, uint64_t end, void *data) {
    pthread_mutex_lock(&pages_lock);
    for (struct page *p = page_first(a, start); p < page_after(a, end); p++)
        sum_page(p, data);
    pthread_mutex_unlock(&pages_lock);
    return true;
}

/* Fills the caller's list of ints: what there is, then CU_DEVICE_INVALID. */
static CUresult list_accessed_by(unsigned bits, int *out, size_t room) {
    size_t n = 0;
    for (int d = 0; d <= DEVICES_MAX && n < room; d++)
        if (bits & 1u << d)
            out[n++] = d == DEVICES_MAX ? CU_DEVICE_CPU : d;
    while (n < room)
        out[n++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult range_attribute(void *data, size_t size, CUmem_range_attribute id, const struct summary *s) {
    int value;
    INVALID_IF(!data || size < sizeof value || size % sizeof value);
    switch (id) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        value = s->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: /* EMU_HOST and EMU_UNKNOWN are the driver's numbers too */
        value = s->preferred;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        return list_accessed_by(s->accessed_by, data, size / sizeof value);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        value = s->last_prefetch;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

_Static_assert(EMU_HOST == -1 && EMU_UNKNOWN == -2, "as CU_DEVICE_CPU and CU_DEVICE_INVALID");

static CUresult summarize(CUdeviceptr start, size_t bytes, struct summary *s) {
    *s = (struct summary){.any = false};
    TRY(check(start, bytes));
    area_visit(start, bytes, NULL, sum_area, s);
    return CUDA_SUCCESS;
}

EXPORT int emu_preferred(uint64_t address) {
    struct summary s;
    return summarize(address, 1, &s) == CUDA_SUCCESS ? s.preferred : EMU_UNKNOWN;
}

CALL(cuMemRangeGetAttribute, CALL_CONTEXT, void *data, size_t size, CUmem_range_attribute id, CUdeviceptr start,
     size_t bytes) {
    struct summary s;
    TRY(summarize(start, bytes, &s));
    return range_attribute(data, size, id, &s);
}

CALL(cuMemRangeGetAttributes, CALL_CONTEXT, void **data, size_t *sizes, CUmem_range_attribute *ids, size_t n,
     CUdeviceptr start, size_t bytes) {
    struct summary s;
    INVALID_IF(!data || !sizes || !ids);
    TRY(summarize(start, bytes, &s));
    for (size_t i = 0; i < n; i++)
        TRY(range_attribute(data[i], sizes[i], ids[i], &s));
    return CUDA_SUCCESS;
}
