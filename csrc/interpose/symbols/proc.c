/* cuInit, and cuGetProcAddress: the real answer first, then our wrapper for exactly that function. */
#include "base/log.h"
#include "driver/elf.h"
#include "driver/frame.h"
#include "driver/real.h"
#include "interpose/session/start.h"

#include <string.h>

CUresult custom_cuInit(int variant, unsigned int Flags) {
    CUresult status = REAL(cuInit, variant)(Flags);
    if (status == CUDA_SUCCESS)
        session_start();
    return status;
}

/* What the driver itself gives for a row's own version; NULL when it knows no such thing. */
static void *driver_gives(const struct api_row *row, cuuint64_t flags) {
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    if (real_find(API_cuGetProcAddress_v2, 0))
        REAL(cuGetProcAddress_v2, 0)(row->base, &function, (int)row->since, flags, &found);
    else
        REAL(cuGetProcAddress, 0)(row->base, &function, (int)row->since, flags);
    return function;
}

static bool is_row(enum api api, int variant, cuuint64_t flags, const void *real) {
    return real == real_find(api, variant) || real == driver_gives(&api_rows[api], flags);
}

/* Another interposer stands before the driver's function, and may be the one that asks. */
static bool asker_is_called_by_us(enum api api) {
    void *frames[FRAME_MAX];
    int depth = frame_list(frames);
    for (int i = 0; i < depth; i++)
        if (!elf_is_ours(frames[i]))
            return real_comes_to(api, frames[i]);
    return false;
}

/* Trap: a driver newer than our tables may answer a newer version of a name with another parameter list. The wrapper
 * for (name, version) is given only when the driver's answer is the function that this row's own version names; else
 * the row that has it, else the driver's function as it is. */
static void * override(const char *name, int version, cuuint64_t flags, void *real) {
    int asked = api_by_base(name, (uint32_t)version);
    bool wrapped = false;
    if (asked < 0)
        return real;
    for (int api = asked; api >= 0; api = api_by_base(name, api_rows[api].since - 1)) {
        const struct api_row *row = &api_rows[api];
        int variant = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && row->thread_suffix;
        if (is_row((enum api)api, variant, flags, real)) {
            real_offer((enum api)api, variant, real);
            if (real != real_find((enum api)api, variant) && asker_is_called_by_us((enum api)api))
                return real;
            return row->wrapper[variant] ? row->wrapper[variant] : real;
        }
        wrapped = wrapped || row->wrapper[variant];
    }
    if (wrapped)
        log_warn("%s for CUDA %d is a version not known here: its calls are not seen", name, version);
    return real;
}

CUresult custom_cuGetProcAddress(int variant, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    CUresult status = REAL(cuGetProcAddress, variant)(symbol, pfn, cudaVersion, flags);
    if (status == CUDA_SUCCESS && pfn && *pfn)
        *pfn = override(symbol, cudaVersion, flags, *pfn);
    return status;
}

CUresult custom_cuGetProcAddress_v2(int variant, const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *symbolStatus) {
    CUresult status = REAL(cuGetProcAddress_v2, variant)(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (status == CUDA_SUCCESS && pfn && *pfn)
        *pfn = override(symbol, cudaVersion, flags, *pfn);
    return status;
}
