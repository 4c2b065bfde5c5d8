/* The driver's version, and its functions by name. */
#include "proc.h"

#include "call.h"
#include "device.h"
#include "environment.h"

#include <stdlib.h>
#include <string.h>

static const char *newer; /* the name that means something else in the next version */

/* Programs may ask before cuInit. */
__attribute__((constructor)) static void read_version(void) {
    driver_version = (int)environment_number("EMU_DRIVER_VERSION", 13000);
    newer = getenv("EMU_NEWER");
}

static CUresult newer_function(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

uint32_t proc_since(const char *symbol) {
    for (size_t i = 0; i < proc_row_count; i++) {
        size_t n = strlen(proc_rows[i].symbol);
        if (strncmp(symbol, proc_rows[i].symbol, n) == 0 &&
            (!symbol[n] || !strcmp(symbol + n, "_ptsz") || !strcmp(symbol + n, "_ptds")))
            return proc_rows[i].since;
    }
    return 0;
}

CALL(cuDriverGetVersion, CALL_ANY, int *version) {
    TELL(version, driver_version);
}

static CUresult look_up(const char *base, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    CUdriverProcAddressQueryResult unused;
    status = status ? status : &unused;
    INVALID_IF(!base || !out || flags > 2);
    const struct proc_row *best = NULL;
    bool known = false;
    for (size_t i = 0; i < proc_row_count; i++) {
        const struct proc_row *r = &proc_rows[i];
        if (strcmp(r->base, base) != 0 || r->since > (uint32_t)driver_version)
            continue;
        known = true;
        if (r->since <= (uint32_t)version && (!best || r->since > best->since))
            best = r;
    }
    *out = NULL;
    if (!best) {
        *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_ERROR_NOT_FOUND;
    }
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    *out = per_thread && best->twin ? best->twin : best->function;
    if (newer && version > driver_version && strcmp(base, newer) == 0)
        *out = (void *)newer_function;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CALL(cuGetProcAddress, CALL_ANY, const char *base, void **out, int version, cuuint64_t flags) {
    return look_up(base, out, version, flags, NULL);
}

CALL(cuGetProcAddress_v2, CALL_ANY, const char *base, void **out, int version, cuuint64_t flags,
     CUdriverProcAddressQueryResult *status) {
    CUresult result = look_up(base, out, version, flags, status);
    /* With a status to read, a missing function is no error. */
    return result == CUDA_ERROR_NOT_FOUND && status ? CUDA_SUCCESS : result;
}
