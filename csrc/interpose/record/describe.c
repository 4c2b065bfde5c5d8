#include "interpose/record/describe.h"

#include <stdio.h>

#include "driver/real.h"
#include "interpose/record/image.h"

typedef CUresult (*parameter_function)(void *, size_t, size_t *, size_t *);
typedef CUresult (*name_function)(const char **, void *);

static int driver_version(void) {
    static int known;
    int version = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (version == 0 && REAL(cuDriverGetVersion, 0)(&version) == CUDA_SUCCESS)
        __atomic_store_n(&known, version, __ATOMIC_RELAXED);
    return version;
}

bool driver_tells_parameters(void) {
    return driver_version() >= 12040;
}

static bool driver_tells_names(void) {
    return driver_version() >= 12030;
}

/* Returns the answer behind the last parameter that was told: "invalid value" where that was the last one of all. Any
 * other, for want of memory say, tells of none that may follow. */
static CUresult parameters(parameter_function ask, uint64_t handle, struct layout *out) {
    size_t offset, size;
    uint32_t n = 0;
    CUresult status = CUDA_ERROR_NOT_SUPPORTED;
    while (ask && n < PARAMETERS_MAX && (status = ask((void *)(uintptr_t)handle, n, &offset, &size)) == CUDA_SUCCESS) {
        out->offset[n] = (uint16_t)offset;
        out->size[n] = (uint16_t)size;
        n++;
    }
    out->parameters = n;
    return status;
}

static bool name(name_function ask, uint64_t handle, struct layout *out) {
    const char *text = NULL;
    if (!ask || ask(&text, (void *)(uintptr_t)handle) != CUDA_SUCCESS || !text)
        return false;
    snprintf(out->name, sizeof out->name, "%s", text);
    return true;
}

static bool is_end(CUresult status) {
    return status == CUDA_ERROR_INVALID_VALUE;
}

/* A launch takes a CUfunction or a CUkernel and does not say which. A handle of the other kind is refused or answers as
 * a function without parameters, so the kernel's answer is asked for whenever the function's has none. That there are
 * none at all is known only when neither question failed for another reason. */
static bool ask_parameters(uint64_t handle, struct layout *out) {
    CUresult function = parameters((parameter_function)real_find(API_cuFuncGetParamInfo, 0), handle, out);
    if (out->parameters > 0)
        return is_end(function);
    CUresult kernel = parameters((parameter_function)real_find(API_cuKernelGetParamInfo, 0), handle, out);
    if (out->parameters > 0)
        return is_end(kernel);
    return (is_end(function) && (is_end(kernel) || kernel == CUDA_ERROR_INVALID_HANDLE)) ||
           (function == CUDA_ERROR_INVALID_HANDLE && is_end(kernel));
}

static void ask_name(uint64_t handle, struct layout *out) {
    if (!name((name_function)real_find(API_cuFuncGetName, 0), handle, out))
        name((name_function)real_find(API_cuKernelGetName, 0), handle, out);
}

typedef CUresult (*owner_function)(void **, void *);

/* The driver knows where a handle comes from that was not given through a call that is looked at. */
static const struct kernel_code *code_of(uint64_t handle, const char *kernel) {
    static const enum api questions[] = {API_cuFuncGetModule, API_cuKernelGetLibrary};
    const struct kernel_code *code = NULL;
    bool known = loaded_code(handle, kernel, &code);
    for (int i = 0; i < 2 && !known; i++) {
        void *owner = NULL;
        owner_function ask = (owner_function)real_find(questions[i], 0);
        if (ask && ask(&owner, (void *)(uintptr_t)handle) == CUDA_SUCCESS)
            known = loaded_code((uint64_t)(uintptr_t)owner, kernel, &code);
    }
    return code;
}

void describe(uint64_t handle, struct layout *out) {
    if (driver_tells_parameters())
        out->known = ask_parameters(handle, out);
    else
        loaded_describe(handle, out);
    if (driver_tells_names())
        ask_name(handle, out);
    if (kernel_code_on())
        out->code = code_of(handle, out->name);
}
