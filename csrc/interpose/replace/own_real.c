#include "interpose/replace/own_state.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/patience.h"
#include "driver/context.h"

enum { REFUSALS = 3 };

/* The device may have to be cleared for it. */
static CUresult create(struct virtual_handle *s, CUmemGenericAllocationHandle *handle, struct charge *c) {
    int device = s->prop.location.id;
    charge_open_unlimited(c, device, MEMORY_VMM, s->bytes);
    if (s->promise) /* its memory serves again */
        own_forgo(s);
    CUresult status = RELIEVED(c, REAL(cuMemCreate, 0)(handle, s->bytes, &s->prop, 0));
    struct patience wish = {0};
    for (int i = 0; status && (status == CUDA_ERROR_OUT_OF_MEMORY ? patience_rest(&wish) : i < REFUSALS); i++) {
        if (context_device() == device)
            session.backend->plain(device);
        status = RELIEVED(c, REAL(cuMemCreate, 0)(handle, s->bytes, &s->prop, 0));
    }
    charge_hold(c, status);
    return status;
}

/* The ledger has plain memory there in the place of what moved. */
static void enter_plain(const struct virtual_handle *s) {
    struct dealloc p;
    struct charge c = {.recorded = session_on, .device = s->prop.location.id, .kind = MEMORY_VMM};
    CUdeviceptr start = s->at;
    dealloc_open(&p, start);
    dealloc_close(&p, CUDA_SUCCESS);
    c.context = p.gone.context;
    charge_close(&c, CUDA_SUCCESS, &start, s->bytes);
}

static void take_over(struct virtual_handle *s, CUmemGenericAllocationHandle handle, const struct charge *c) {
    s->real = handle;
    charge_end(s->charge);
    *s->charge = *c;
    if (s->mapped)
        enter_plain(s);
    if (s->at) {
        hash_take(&own_placed, s->at);
        own_left(s->at);
    }
    s->at = 0;
}

struct change {
    struct virtual_handle *s;
    struct charge charge;
};

/* n of them, at the places that the list says. */
static CUresult replace(struct own_real *list, struct change *change, size_t n) {
    CUresult status = CUDA_SUCCESS;
    size_t made = 0;
    for (; status == CUDA_SUCCESS && made < n; made += status == CUDA_SUCCESS) {
        struct virtual_handle *s = change[made].s = hash_get(&own_placed, list[made].at);
        CUmemGenericAllocationHandle handle = 0;
        status = s ? create(s, &handle, &change[made].charge) : CUDA_ERROR_UNKNOWN;
        if (status == CUDA_SUCCESS)
            list[made] = (struct own_real){s->at, s->bytes, handle, s->mapped, context_current()};
    }
    bool done = false;
    for (int i = 0; status == CUDA_SUCCESS && !done && i < REFUSALS; i++)
        done = own()->replace(list, n);
    status = status == CUDA_SUCCESS && !done ? CUDA_ERROR_OUT_OF_MEMORY : status;
    for (size_t i = 0; i < made; i++) {
        if (status == CUDA_SUCCESS) {
            take_over(change[i].s, list[i].handle, &change[i].charge);
            continue;
        }
        REAL(cuMemRelease, 0)(list[i].handle);
        charge_end(&change[i].charge);
    }
    return status;
}

static void tell_refused(CUresult status) {
    static bool told;
    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_error("a handle's memory that moves cannot be made plain (error %d), as it must be where it is mapped at "
                  "more than one place, or exported: name the library that allocates it in ULMS_PLAIN",
                  (int)status);
}

CUresult own_clear(CUdeviceptr ptr, size_t size) {
    CUresult status = CUDA_SUCCESS;
    size_t n = own()->beside(ptr, size, NULL, 0);
    if (n == 0)
        return CUDA_SUCCESS;
    addr_t *at = calloc(n, sizeof *at);
    struct own_real *list = calloc(n, sizeof *list);
    struct change *change = calloc(n, sizeof *change);
    if (!at || !list || !change)
        status = CUDA_ERROR_OUT_OF_MEMORY;
    else
        own()->beside(ptr, size, at, n);
    for (size_t i = 0; status == CUDA_SUCCESS && i < n; i++)
        list[i].at = at[i];
    status = status ? status : replace(list, change, n);
    if (status != CUDA_SUCCESS)
        tell_refused(status);
    free(at);
    free(list);
    free(change);
    return status;
}

CUresult own_become_real(struct virtual_handle *s) {
    struct charge c;
    CUmemGenericAllocationHandle handle = 0;
    if (s->real)
        return CUDA_SUCCESS;
    if (s->at)
        return own_clear(s->at, s->bytes);
    CUresult status = create(s, &handle, &c);
    if (status == CUDA_SUCCESS)
        take_over(s, handle, &c);
    else
        own_provide(s);
    return status;
}

CUresult own_make(struct virtual_handle *s) {
    lock_take(&own_lock);
    CUresult status = own_become_real(s);
    lock_drop(&own_lock);
    return status;
}

CUresult own_make_way(CUdeviceptr ptr, size_t size) {
    lock_take(&own_lock);
    CUresult status = own_taken(ptr, size) ? CUDA_ERROR_INVALID_VALUE : own_clear(ptr, size);
    lock_drop(&own_lock);
    return status;
}
