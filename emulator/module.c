#include "module.h"

#include "memory.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUmodule modules;

/* The image that this is, or NULL. */
static const struct emu_image *image_of(const void *data) {
    if (!data)
        return NULL;
    if (memcmp(data, ELFMAG, SELFMAG) == 0)
        return image_of((const void *)(uintptr_t)((const Elf64_Ehdr *)data)->e_entry);
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
        TRY(memory_allocate(m->context, AREA_VARIABLE, m->context->device, NULL, v->bytes, &made));
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

/* Loads it into the context: variables get memory. */
static CUresult module_load(CUcontext c, const struct emu_image *image, CUlibrary library, CUmodule *out) {
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

static void module_unload(CUmodule m) {
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

/* The library's module in the context, loaded now if it was not. */
static CUresult library_module(CUcontext c, CUlibrary library, CUmodule *out) {
    pthread_mutex_lock(&lock);
    CUmodule m = modules;
    while (m && (m->context != c || m->library != library))
        m = m->next;
    pthread_mutex_unlock(&lock);
    *out = m;
    return m ? CUDA_SUCCESS : module_load(c, library->image, library, out);
}

static void library_unload(CUlibrary library) {
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

CALL(cuModuleLoadData, CALL_CONTEXT, CUmodule *out, const void *data) {
    INVALID_IF(!out || !data);
    const struct emu_image *image = image_of(data);
    return image ? module_load(c, image, NULL, out) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}
SAME(cuModuleLoadFatBinary, cuModuleLoadData);

CALL(cuModuleLoadDataEx, CALL_CONTEXT, CUmodule *out, const void *data, unsigned n, CUjit_option *options,
     void **values) {
    return body_cuModuleLoadData(c, out, data);
}

CALL(cuModuleUnload, CALL_CONTEXT, CUmodule m) {
    if (!m || m->library)
        return CUDA_ERROR_INVALID_HANDLE;
    context_drain(c);
    module_unload(m);
    pthread_mutex_unlock(&c->lock);
    return CUDA_SUCCESS;
}

CALL(cuModuleGetFunction, CALL_CONTEXT, CUfunction *out, CUmodule m, const char *name) {
    INVALID_IF(!out || !m || !name);
    for (uint64_t i = 0; i < m->image->kernel_count; i++) {
        if (strcmp(m->image->kernels[i].name, name) != 0)
            continue;
        *out = &m->functions[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
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

CALL(cuModuleGetGlobal_v2, CALL_CONTEXT, CUdeviceptr *out, size_t *bytes, CUmodule m, const char *name) {
    INVALID_IF(!m || !name);
    return answer_variable(m, name, out, bytes);
}

CALL(cuLibraryGetGlobal, CALL_CONTEXT, CUdeviceptr *out, size_t *bytes, CUlibrary library, const char *name) {
    CUmodule m;
    INVALID_IF(!library || !name);
    TRY(library_module(c, library, &m));
    return answer_variable(m, name, out, bytes);
}

/* --- libraries --- */

CALL(cuLibraryLoadData, CALL_DRIVER, CUlibrary *out, const void *data, CUjit_option *options, void **values, unsigned n,
     CUlibraryOption *library_options, void **library_values, unsigned library_n) {
    INVALID_IF(!out || !data);
    const struct emu_image *image = image_of(data);
    if (!image)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUlibrary library = calloc(1, sizeof *library + image->kernel_count * sizeof *library->kernels);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    library->image = image;
    for (uint64_t i = 0; i < image->kernel_count; i++)
        library->kernels[i] = (struct CUkern_st){ENTRY_KERNEL, library, &image->kernels[i]};
    *out = library;
    return CUDA_SUCCESS;
}

CALL(cuLibraryUnload, CALL_DRIVER, CUlibrary library) {
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

CALL(cuLibraryGetKernel, CALL_DRIVER, CUkernel *out, CUlibrary library, const char *name) {
    INVALID_IF(!out || !library || !name);
    for (uint64_t i = 0; i < library->image->kernel_count; i++) {
        if (strcmp(library->image->kernels[i].name, name) != 0)
            continue;
        *out = &library->kernels[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CALL(cuLibraryGetModule, CALL_CONTEXT, CUmodule *out, CUlibrary library) {
    INVALID_IF(!out || !library);
    return library_module(c, library, out);
}
