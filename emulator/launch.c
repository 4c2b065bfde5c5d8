#include "launch.h"

#include "capture.h"
#include "cost.h"
#include "event.h"

#include <stdlib.h>
#include <string.h>

const char *launch_name(const struct launch *l) {
    return l->function->kernel->name;
}

bool launch_shows(const struct launch *l, uint64_t start, uint64_t end) {
    for (size_t i = 0; i + sizeof start <= l->bytes; i += sizeof start) {
        uint64_t word;
        memcpy(&word, l->arguments + i, sizeof word);
        if (word >= start && word < end)
            return true;
    }
    return false;
}

void launch_run(const struct launch *l, struct emu_launch *r) {
    l->function->kernel->run(r);
}

/* --- what kernels ask --- */

EXPORT const void *emu_arg(const struct emu_launch *r, size_t i) {
    const struct emu_kernel *k = r->kernel->function->kernel;
    if (i >= k->param_count)
        abort(); /* a kernel that does not know its own parameters */
    return r->kernel->arguments + k->params[i].offset;
}

EXPORT uint32_t emu_shape(const struct emu_launch *r, int i) {
    return i >= 0 && i < 7 ? r->kernel->shape[i] : 0;
}

EXPORT uint64_t emu_variable(const struct emu_launch *r, const char *name) {
    return module_variable(r->kernel->function->module, name, NULL);
}

EXPORT void emu_spend(struct emu_launch *r, uint64_t ns) {
    r->spent += ns;
}

/* --- arguments --- */

/* Bytes of the buffer in `extra`, and the buffer. False: it is not well-formed. */
static bool read_extra(void **extra, const void **buffer, size_t *bytes) {
    *buffer = NULL;
    *bytes = SIZE_MAX;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *bytes = *(const size_t *)extra[1];
        else
            return false;
    }
    return *buffer && *bytes != SIZE_MAX;
}

/* The driver takes a buffer that ends within the last parameter (NCCL's do). */
static bool reaches_all(const struct emu_kernel *k, size_t bytes) {
    for (uint64_t i = 0; i < k->param_count; i++)
        if (bytes <= k->params[i].offset)
            return false;
    return true;
}

static bool copy_arguments(struct launch *l, const struct emu_kernel *k, void **params, void **extra) {
    if (params && extra)
        return false;
    if (extra) {
        const void *buffer;
        size_t bytes;
        if (!read_extra(extra, &buffer, &bytes) || !reaches_all(k, bytes))
            return false;
        memcpy(l->arguments, buffer, bytes < l->bytes ? bytes : l->bytes);
        return true;
    }
    for (uint64_t i = 0; i < k->param_count; i++) {
        if (!params || !params[i])
            return false;
        memcpy(l->arguments + k->params[i].offset, params[i], k->params[i].size);
    }
    return true;
}

CUresult launch_make(CUcontext c, CUfunction handle, const uint32_t shape[7], void **params, void **extra,
                     struct launch **out) {
    CUfunction f;
    TRY(function_of(c, handle, &f));
    for (int i = 0; i < 6; i++)
        INVALID_IF(shape[i] == 0);
    INVALID_IF((uint64_t)shape[3] * shape[4] * shape[5] > 1024 || shape[1] > 65535 || shape[2] > 65535);
    size_t bytes = kernel_argument_bytes(f->kernel);
    struct launch *l = calloc(1, sizeof *l + bytes);
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->function = f;
    memcpy(l->shape, shape, sizeof l->shape);
    l->bytes = bytes;
    if (!copy_arguments(l, f->kernel, params, extra)) {
        free(l);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = l;
    return CUDA_SUCCESS;
}

struct launch *launch_copy(const struct launch *l) {
    struct launch *copy = malloc(sizeof *l + l->bytes);
    if (copy)
        memcpy(copy, l, sizeof *l + l->bytes);
    return copy;
}

/* --- calls --- */

static CUresult issue(CUcontext c, CUstream s, CUfunction handle, const uint32_t shape[7], void **params,
                      void **extra) {
    struct work w = {.kind = WORK_KERNEL};
    CUresult result = launch_make(c, handle, shape, params, extra, &w.launch);
    if (result == CUDA_SUCCESS && w.launch->function->module->context != s->context) {
        work_release(&w);
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result != CUDA_SUCCESS)
        return result;
    result = stream_issue(s, &w);
    cost_call(rate(RATE_LAUNCH));
    return result;
}

CALL_ON(cuLaunchKernel, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, CUstream stream, void **params, void **extra) {
    return issue(c, s, f, (uint32_t[]){gx, gy, gz, bx, by, bz, shared}, params, extra);
}

CALL_ON(cuLaunchCooperativeKernel, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
        unsigned bz, unsigned shared, CUstream stream, void **params) {
    return issue(c, s, f, (uint32_t[]){gx, gy, gz, bx, by, bz, shared}, params, NULL);
}

/* Of the attributes only those that record an event change what is seen. */
static CUresult record_events(CUstream s, const CUlaunchConfig *config) {
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        CUevent e = a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT        ? a->value.programmaticEvent.event
                    : a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ? a->value.launchCompletionEvent.event
                                                                           : NULL;
        TRY(e ? event_record(s, e, 0) : CUDA_SUCCESS);
    }
    return CUDA_SUCCESS;
}

CALL_ON(cuLaunchKernelEx, const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
    INVALID_IF(!config || (config->numAttrs && !config->attrs));
    if (config->hStream)
        TRY(stream_find(c, config->hStream, false, &s));
    uint32_t shape[] = {config->gridDimX,  config->gridDimY,  config->gridDimZ,      config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes};
    TRY(issue(c, s, f, shape, params, extra));
    return record_events(s, config);
}

CALL(cuLaunchCooperativeKernelMultiDevice, CALL_CONTEXT, CUDA_LAUNCH_PARAMS *launches, unsigned n, unsigned flags) {
    INVALID_IF(!launches || n == 0 || flags > 3);
    for (unsigned i = 0; i < n; i++) {
        const CUDA_LAUNCH_PARAMS *p = &launches[i];
        INVALID_IF(!p->hStream || p->hStream == CU_STREAM_LEGACY || p->hStream == CU_STREAM_PER_THREAD);
        uint32_t shape[] = {p->gridDimX,  p->gridDimY,  p->gridDimZ,      p->blockDimX,
                            p->blockDimY, p->blockDimZ, p->sharedMemBytes};
        TRY(issue(p->hStream->context, p->hStream, p->function, shape, p->kernelParams, NULL));
    }
    return CUDA_SUCCESS;
}

/* --- as in CUDA 3: the function keeps its block and its arguments --- */

CALL(cuFuncSetBlockShape, CALL_CONTEXT, CUfunction handle, int x, int y, int z) {
    CUfunction f;
    CUresult result = function_of(c, handle, &f);
    if (result == CUDA_SUCCESS)
        memcpy(f->block, (uint32_t[]){(uint32_t)x, (uint32_t)y, (uint32_t)z}, sizeof f->block);
    return result;
}

CALL(cuParamSetSize, CALL_CONTEXT, CUfunction handle, unsigned bytes) {
    CUfunction f;
    CUresult result = function_of(c, handle, &f);
    if (result == CUDA_SUCCESS && bytes > sizeof f->set)
        NOT_EMULATED("so many bytes of parameters that are set one by one");
    if (result == CUDA_SUCCESS)
        f->set_bytes = bytes;
    return result;
}

CALL(cuParamSetv, CALL_CONTEXT, CUfunction handle, int offset, void *from, unsigned bytes) {
    CUfunction f;
    TRY(function_of(c, handle, &f));
    INVALID_IF(offset < 0 || bytes > sizeof f->set || (size_t)offset > sizeof f->set - bytes);
    memcpy(f->set + offset, from, bytes);
    return CUDA_SUCCESS;
}

static CUresult issue_set(CUcontext c, CUstream stream, CUfunction handle, int width, int height) {
    CUfunction f;
    FIND(stream, false);
    TRY(function_of(c, handle, &f));
    size_t bytes = f->set_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->set, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    uint32_t shape[] = {(uint32_t)width, (uint32_t)height, 1, f->block[0], f->block[1], f->block[2], 0};
    return issue(c, s, f, shape, NULL, extra);
}

CALL(cuLaunchGridAsync, CALL_CONTEXT, CUfunction f, int width, int height, CUstream stream) {
    return issue_set(c, stream, f, width, height);
}
