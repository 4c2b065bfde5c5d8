/* What is asked and set about functions and kernels, and how many blocks of them fit. */
#include "module.h"

#include "call.h"
#include "device.h"

static bool is_kernel(const void *handle) {
    return handle && ((CUkernel)handle)->kind == ENTRY_KERNEL;
}

static bool is_function(const void *handle) {
    return handle && ((CUfunction)handle)->kind == ENTRY_FUNCTION;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
    BEGIN(CALL_CONTEXT);
    if (!out || !is_kernel(kernel))
        return CUDA_ERROR_INVALID_VALUE;
    return function_of(c, (CUfunction)kernel, out);
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel) {
    BEGIN(CALL_DRIVER);
    if (!out || !is_kernel(kernel))
        return CUDA_ERROR_INVALID_VALUE;
    *out = kernel->library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction function) {
    BEGIN(CALL_CONTEXT);
    if (!out || !is_function(function))
        return CUDA_ERROR_INVALID_VALUE;
    *out = function->module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function) {
    BEGIN(CALL_DRIVER);
    if (!name || !is_function(function))
        return CUDA_ERROR_INVALID_VALUE;
    *name = function->kernel->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    BEGIN(CALL_DRIVER);
    if (!name || !is_kernel(kernel))
        return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->kernel->name;
    return CUDA_SUCCESS;
}

static CUresult param_info(const struct emu_kernel *k, size_t i, size_t *offset, size_t *size) {
    if (!offset || i >= k->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = k->params[i].offset;
    if (size)
        *size = k->params[i].size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset, size_t *size) {
    BEGIN(CALL_DRIVER);
    return is_function(function) ? param_info(function->kernel, i, offset, size) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *offset, size_t *size) {
    BEGIN(CALL_DRIVER);
    return is_kernel(kernel) ? param_info(kernel->kernel, i, offset, size) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    BEGIN(CALL_CONTEXT);
    if (!state || !is_function(function))
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction function) {
    BEGIN(CALL_CONTEXT);
    return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- attributes --- */

static CUresult attribute(int *value, CUfunction_attribute id, const struct CUfunc_st *f) {
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (id) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f && f->dynamic_shared ? f->dynamic_shared : 49152;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = f ? f->carveout : 0;
        return CUDA_SUCCESS;
    default:
        *value = 0;
        return (unsigned)id <= CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute id, CUfunction handle) {
    BEGIN(CALL_CONTEXT);
    CUfunction f;
    CUresult result = function_of(c, handle, &f);
    return result == CUDA_SUCCESS ? attribute(value, id, f) : result;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute id, int value) {
    BEGIN(CALL_CONTEXT);
    CUfunction f;
    CUresult result = function_of(c, handle, &f);
    if (result != CUDA_SUCCESS)
        return result;
    if (id == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        f->dynamic_shared = value;
    else if (id == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        f->carveout = value;
    return (unsigned)id <= CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
    BEGIN(CALL_CONTEXT);
    (void)config;
    return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute id, CUkernel kernel, CUdevice d) {
    BEGIN(CALL_DRIVER);
    if (!is_kernel(kernel) || !device_valid(d))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(value, id, NULL);
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute id, int value, CUkernel kernel, CUdevice d) {
    BEGIN(CALL_DRIVER);
    (void)value;
    if (!is_kernel(kernel) || !device_valid(d))
        return CUDA_ERROR_INVALID_VALUE;
    return (unsigned)id <= CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice d) {
    BEGIN(CALL_DRIVER);
    (void)config;
    return is_kernel(kernel) && device_valid(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- occupancy: by threads alone --- */

static CUresult blocks_per_multiprocessor(int *blocks, CUfunction handle, int block_size) {
    if (!blocks || !handle || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    int by_threads = 2048 / block_size;
    *blocks = block_size > 1024 ? 0 : by_threads < 32 ? by_threads : 32;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int block_size,
                                                            size_t shared) {
    BEGIN(CALL_CONTEXT);
    (void)shared;
    return blocks_per_multiprocessor(blocks, handle, block_size);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle, int block_size,
                                                                     size_t shared, unsigned flags) {
    BEGIN(CALL_CONTEXT);
    (void)shared;
    (void)flags;
    return blocks_per_multiprocessor(blocks, handle, block_size);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle, int blocks, int block_size) {
    BEGIN(CALL_CONTEXT);
    if (!bytes || !handle || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = 233472u / (unsigned)blocks - 1024;
    return CUDA_SUCCESS;
}
