#include "module.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUmodule modules;

const struct emu_image *image_of(const void *data) {
    if (!data)
        return NULL;
    if (memcmp(data, EMU_MAGIC, 8) == 0)
        return data;
    return strncmp(data, EMU_BUILTIN, strlen(EMU_BUILTIN)) == 0 ? &builtin_image : NULL;
}

size_t kernel_argument_bytes(const struct emu_kernel *k) {
    size_t bytes = 0;
    for (uint64_t i = 0; i < k->param_count; i++)
        if (k->params[i].offset + k->params[i].size > bytes)
            bytes = k->params[i].offset + k->params[i].size;
    return bytes;
}

static CUresult place_variables(CUmodule m) {
    const struct emu_image *image = m->image;
    m->variables = calloc(image->variable_count + 1, sizeof *m->variables);
    if (!m->variables)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < image->variable_count; i++) {
        const struct emu_variable *v = &image->variables[i];
        struct area made;
        CUresult result = memory_allocate(m->context, AREA_VARIABLE, m->context->device, NULL, v->bytes, &made);
        if (result != CUDA_SUCCESS)
            return result;
        m->variables[i] = made.start;
        void *at = (void *)(uintptr_t)(made.start + (uint64_t)alias);
        if (v->initial)
            memcpy(at, v->initial, v->bytes);
        else
            memset(at, 0, v->bytes);
    }
    return CUDA_SUCCESS;
}

static void unlist(CUmodule m) {
    CUmodule *at = &modules;
    while (*at && *at != m)
        at = &(*at)->next;
    if (*at)
        *at = m->next;
}

static void module_free(CUmodule m) {
    for (uint64_t i = 0; m->variables && i < m->image->variable_count; i++)
        if (m->variables[i])
            memory_free(m->variables[i], 1u << AREA_VARIABLE);
    free(m->variables);
    free(m);
}

CUresult module_load(CUcontext c, const struct emu_image *image, CUlibrary library, CUmodule *out) {
    CUmodule m = calloc(1, sizeof *m + image->kernel_count * sizeof *m->functions);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = c;
    m->library = library;
    m->image = image;
    for (uint64_t i = 0; i < image->kernel_count; i++)
        m->functions[i] = (struct CUfunc_st){.kind = ENTRY_FUNCTION, .module = m, .kernel = &image->kernels[i]};
    CUresult result = place_variables(m);
    if (result != CUDA_SUCCESS) {
        module_free(m);
        return result;
    }
    pthread_mutex_lock(&lock);
    m->next = modules;
    modules = m;
    pthread_mutex_unlock(&lock);
    *out = m;
    return CUDA_SUCCESS;
}

void module_unload(CUmodule m) {
    pthread_mutex_lock(&lock);
    unlist(m);
    pthread_mutex_unlock(&lock);
    module_free(m);
}

/* Takes out the first module that is of the context or of the library. */
static CUmodule take_any(CUcontext c, CUlibrary library) {
    pthread_mutex_lock(&lock);
    CUmodule m = modules;
    while (m && (c ? m->context != c : m->library != library))
        m = m->next;
    if (m)
        unlist(m);
    pthread_mutex_unlock(&lock);
    return m;
}

void modules_free_of(CUcontext c) {
    for (CUmodule m; (m = take_any(c, NULL));)
        module_free(m);
}

CUresult library_module(CUcontext c, CUlibrary library, CUmodule *out) {
    pthread_mutex_lock(&lock);
    CUmodule m = modules;
    while (m && (m->context != c || m->library != library))
        m = m->next;
    pthread_mutex_unlock(&lock);
    *out = m;
    return m ? CUDA_SUCCESS : module_load(c, library->image, library, out);
}

void library_unload(CUlibrary library) {
    for (CUmodule m; (m = take_any(NULL, library));)
        module_free(m);
    free(library);
}

CUresult function_of(CUcontext c, CUfunction handle, CUfunction *out) {
    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle->kind == ENTRY_FUNCTION) {
        *out = handle;
        return CUDA_SUCCESS;
    }
    CUkernel kernel = (CUkernel)handle;
    CUmodule m;
    CUresult result = kernel->kind == ENTRY_KERNEL ? library_module(c, kernel->library, &m) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *out = &m->functions[kernel - kernel->library->kernels];
    return result;
}

uint64_t module_variable(CUmodule m, const char *name, uint64_t *bytes) {
    for (uint64_t i = 0; i < m->image->variable_count; i++) {
        if (strcmp(m->image->variables[i].name, name) != 0)
            continue;
        if (bytes)
            *bytes = m->image->variables[i].bytes;
        return m->variables[i];
    }
    return 0;
}

/* --- calls --- */

static CUresult load(CUcontext c, const void *data, CUmodule *out) {
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_image *image = image_of(data);
    if (!image)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    return module_load(c, image, NULL, out);
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *data) {
    BEGIN(CALL_CONTEXT);
    return load(c, data, out);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *data, unsigned n, CUjit_option *options, void **values) {
    BEGIN(CALL_CONTEXT);
    (void)n;
    (void)options;
    (void)values;
    return load(c, data, out);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *data) {
    BEGIN(CALL_CONTEXT);
    return load(c, data, out);
}

/* The only files that hold an image of ours are those that hold its name. */
static CUresult read_image(const char *path, const struct emu_image **out) {
    char text[sizeof EMU_BUILTIN] = "";
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    *out = n == sizeof text - 1 ? image_of(text) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path) {
    BEGIN(CALL_CONTEXT);
    const struct emu_image *image;
    CUresult result = out ? read_image(path, &image) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? module_load(c, image, NULL, out) : result;
}

EXPORT CUresult cuModuleUnload(CUmodule m) {
    BEGIN(CALL_CONTEXT);
    if (!m || m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    context_drain(c);
    module_unload(m);
    pthread_mutex_unlock(&c->lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    BEGIN(CALL_DRIVER);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    BEGIN(CALL_CONTEXT);
    if (!out || !m || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t i = 0; i < m->image->kernel_count; i++) {
        if (strcmp(m->image->kernels[i].name, name) != 0)
            continue;
        *out = &m->functions[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule m) {
    BEGIN(CALL_CONTEXT);
    if (!count || !m)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (unsigned)m->image->kernel_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned n, CUmodule m) {
    BEGIN(CALL_CONTEXT);
    if (!out || !m)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n && i < m->image->kernel_count; i++)
        out[i] = &m->functions[i];
    return CUDA_SUCCESS;
}

static CUresult answer_variable(CUmodule m, const char *name, CUdeviceptr *out, size_t *bytes) {
    uint64_t size, address = module_variable(m, name, &size);
    if (!address)
        return CUDA_ERROR_NOT_FOUND;
    if (out)
        *out = address;
    if (bytes)
        *bytes = size;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule m, const char *name) {
    BEGIN(CALL_CONTEXT);
    if (!m || !name)
        return CUDA_ERROR_INVALID_VALUE;
    return answer_variable(m, name, out, bytes);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name) {
    BEGIN(CALL_CONTEXT);
    CUmodule m;
    if (!library || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = library_module(c, library, &m);
    return result == CUDA_SUCCESS ? answer_variable(m, name, out, bytes) : result;
}

EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name) {
    BEGIN(CALL_CONTEXT);
    (void)out;
    (void)bytes;
    return library && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE; /* images have no managed variables */
}

/* --- libraries --- */

static CUresult load_library(const struct emu_image *image, CUlibrary *out) {
    CUlibrary library = calloc(1, sizeof *library + image->kernel_count * sizeof *library->kernels);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    library->image = image;
    for (uint64_t i = 0; i < image->kernel_count; i++)
        library->kernels[i] = (struct CUkern_st){ENTRY_KERNEL, library, &image->kernels[i]};
    *out = library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *data, CUjit_option *options, void **values, unsigned n,
                                  CUlibraryOption *library_options, void **library_values, unsigned library_n) {
    BEGIN(CALL_DRIVER);
    (void)options, (void)values, (void)n, (void)library_options, (void)library_values, (void)library_n;
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_image *image = image_of(data);
    return image ? load_library(image, out) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options, void **values,
                                      unsigned n, CUlibraryOption *library_options, void **library_values,
                                      unsigned library_n) {
    BEGIN(CALL_DRIVER);
    (void)options, (void)values, (void)n, (void)library_options, (void)library_values, (void)library_n;
    const struct emu_image *image;
    CUresult result = out ? read_image(path, &image) : CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? load_library(image, out) : result;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library) {
    BEGIN(CALL_DRIVER);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    CUcontext current = context_current();
    if (current && atomic_load(&current->alive)) {
        context_drain(current);
        pthread_mutex_unlock(&current->lock);
    }
    library_unload(library);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
    BEGIN(CALL_DRIVER);
    if (!out || !library || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t i = 0; i < library->image->kernel_count; i++) {
        if (strcmp(library->image->kernels[i].name, name) != 0)
            continue;
        *out = &library->kernels[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
    BEGIN(CALL_DRIVER);
    if (!count || !library)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (unsigned)library->image->kernel_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary library) {
    BEGIN(CALL_DRIVER);
    if (!out || !library)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n && i < library->image->kernel_count; i++)
        out[i] = &library->kernels[i];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library) {
    BEGIN(CALL_CONTEXT);
    if (!out || !library)
        return CUDA_ERROR_INVALID_VALUE;
    return library_module(c, library, out);
}
