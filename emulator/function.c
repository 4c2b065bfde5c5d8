/* What is asked about functions and kernels. */
#include "module.h"

#include "call.h"
#include "device.h"

static bool is_kernel(const void *handle) {
    return handle && ((CUkernel)handle)->kind == ENTRY_KERNEL;
}

static bool is_function(const void *handle) {
    return handle && ((CUfunction)handle)->kind == ENTRY_FUNCTION;
}

CALL(cuKernelGetFunction, CALL_CONTEXT, CUfunction *out, CUkernel kernel) {
    INVALID_IF(!out || !is_kernel(kernel));
    return function_of(c, (CUfunction)kernel, out);
}

CALL(cuKernelGetLibrary, CALL_DRIVER, CUlibrary *out, CUkernel kernel) {
    INVALID_IF(!out || !is_kernel(kernel));
    *out = kernel->library;
    return CUDA_SUCCESS;
}

CALL(cuFuncGetModule, CALL_DRIVER, CUmodule *out, CUfunction function) {
    INVALID_IF(!out || !is_function(function));
    *out = function->module;
    return CUDA_SUCCESS;
}

CALL(cuFuncGetName, CALL_DRIVER, const char **name, CUfunction function) {
    INVALID_IF(!name || !is_function(function));
    *name = function->kernel->name;
    return CUDA_SUCCESS;
}

CALL(cuKernelGetName, CALL_DRIVER, const char **name, CUkernel kernel) {
    INVALID_IF(!name || !is_kernel(kernel));
    *name = kernel->kernel->name;
    return CUDA_SUCCESS;
}

static CUresult param_info(const struct emu_kernel *k, size_t i, size_t *offset, size_t *size) {
    INVALID_IF(!offset || i >= k->param_count);
    *offset = k->params[i].offset;
    if (size)
        *size = k->params[i].size;
    return CUDA_SUCCESS;
}

CALL(cuFuncGetParamInfo, CALL_DRIVER, CUfunction function, size_t i, size_t *offset, size_t *size) {
    return is_function(function) ? param_info(function->kernel, i, offset, size) : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuKernelGetParamInfo, CALL_DRIVER, CUkernel kernel, size_t i, size_t *offset, size_t *size) {
    return is_kernel(kernel) ? param_info(kernel->kernel, i, offset, size) : CUDA_ERROR_INVALID_VALUE;
}
