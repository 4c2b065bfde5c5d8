/* Modules and libraries: their variables are device memory, and their function handles end with them. */
#include "driver/session.h"
#include "interpose/account/memory.h"
#include "interpose/record/image.h"

/* The program may ask for only one of address and size; both are needed here. */
static CUresult noted(CUresult status, CUdeviceptr start, size_t bytes, const void *owner, CUdeviceptr *dptr,
                      size_t *size) {
    if (status != CUDA_SUCCESS)
        return status;
    memory_note(start, bytes, MEMORY_GLOBAL, (uint64_t)(uintptr_t)owner);
    if (dptr)
        *dptr = start;
    if (size)
        *size = bytes;
    return status;
}

CUresult custom_cuModuleGetGlobal_v2(int variant, CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    CUdeviceptr start = 0;
    size_t size = 0;
    if (!session_on || (!dptr && !bytes))
        return REAL(cuModuleGetGlobal_v2, variant)(dptr, bytes, hmod, name);
    CUresult status = REAL(cuModuleGetGlobal_v2, variant)(&start, &size, hmod, name);
    return noted(status, start, size, hmod, dptr, bytes);
}

CUresult custom_cuLibraryGetGlobal(int variant, CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    CUdeviceptr start = 0;
    size_t size = 0;
    if (!session_on || (!dptr && !bytes))
        return REAL(cuLibraryGetGlobal, variant)(dptr, bytes, library, name);
    CUresult status = REAL(cuLibraryGetGlobal, variant)(&start, &size, library, name);
    return noted(status, start, size, library, dptr, bytes);
}

CUresult custom_cuLibraryGetManaged(int variant, CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                    const char *name) {
    CUdeviceptr start = 0;
    size_t size = 0;
    if (!session_on || (!dptr && !bytes))
        return REAL(cuLibraryGetManaged, variant)(dptr, bytes, library, name);
    CUresult status = REAL(cuLibraryGetManaged, variant)(&start, &size, library, name);
    return noted(status, start, size, library, dptr, bytes);
}

/* Function handles are forgotten before the real call: after it, another thread's image may have them. Variables are
 * after it, for it may refuse. */
static struct loaded *unloading(const void *owner) {
    if (!session_on)
        return NULL;
    functions_forget();
    return loaded_unload_begin(owner);
}

static CUresult unloaded(struct loaded *going, CUresult status, const void *owner) {
    loaded_unload_end(going, status);
    if (status == CUDA_SUCCESS && session_on)
        memory_forget((uint64_t)(uintptr_t)owner);
    return status;
}

CUresult custom_cuModuleUnload(int variant, CUmodule hmod) {
    struct loaded *going = unloading(hmod);
    return unloaded(going, REAL(cuModuleUnload, variant)(hmod), hmod);
}

CUresult custom_cuLibraryUnload(int variant, CUlibrary library) {
    struct loaded *going = unloading(library);
    return unloaded(going, REAL(cuLibraryUnload, variant)(library), library);
}

/* --- calls that load --- */

enum { JIT_TARGET = 9, JIT_FALLBACK = 10, JIT_PLAIN_LAST = 16, LIBRARY_PRESERVED = 1 };

/* Those behind the last plain one link, or give variables addresses. */
static bool changes(const CUjit_option *options, unsigned int n) {
    bool any = false;
    for (unsigned int i = 0; options && i < n; i++)
        any |= options[i] == JIT_TARGET || options[i] == JIT_FALLBACK || options[i] > JIT_PLAIN_LAST;
    return any;
}

static bool is_preserved(const CUlibraryOption *options, void *const *values, unsigned int n) {
    bool any = false;
    for (unsigned int i = 0; options && values && i < n; i++)
        any |= options[i] == LIBRARY_PRESERVED && values[i];
    return any;
}

CUresult custom_cuModuleLoad(int variant, CUmodule *module, const char *fname) {
    CUresult status = REAL(cuModuleLoad, variant)(module, fname);
    if (loaded_wanted(status))
        loaded_enter_file(*module, fname);
    return status;
}

CUresult custom_cuModuleLoadData(int variant, CUmodule *module, const void *image) {
    CUresult status = REAL(cuModuleLoadData, variant)(module, image);
    if (loaded_wanted(status))
        loaded_enter(*module, image, false, false);
    return status;
}

CUresult custom_cuModuleLoadDataEx(int variant, CUmodule *module, const void *image, unsigned int numOptions,
                                   CUjit_option *options, void **optionValues) {
    CUresult status = REAL(cuModuleLoadDataEx, variant)(module, image, numOptions, options, optionValues);
    if (loaded_wanted(status))
        loaded_enter(*module, image, false, changes(options, numOptions));
    return status;
}

CUresult custom_cuModuleLoadFatBinary(int variant, CUmodule *module, const void *fatCubin) {
    CUresult status = REAL(cuModuleLoadFatBinary, variant)(module, fatCubin);
    if (loaded_wanted(status))
        loaded_enter(*module, fatCubin, false, false);
    return status;
}

CUresult custom_cuLibraryLoadData(int variant, CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                  void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                  void **libraryOptionValues, unsigned int numLibraryOptions) {
    CUresult status = REAL(cuLibraryLoadData, variant)(library, code, jitOptions, jitOptionsValues, numJitOptions,
                                                       libraryOptions, libraryOptionValues, numLibraryOptions);
    if (loaded_wanted(status))
        loaded_enter(*library, code, is_preserved(libraryOptions, libraryOptionValues, numLibraryOptions),
                     changes(jitOptions, numJitOptions));
    return status;
}

CUresult custom_cuLibraryLoadFromFile(int variant, CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                      void **jitOptionsValues, unsigned int numJitOptions,
                                      CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                      unsigned int numLibraryOptions) {
    CUresult status =
        REAL(cuLibraryLoadFromFile, variant)(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                             libraryOptions, libraryOptionValues, numLibraryOptions);
    if (loaded_wanted(status))
        loaded_enter_file(*library, fileName);
    return status;
}

/* --- calls that give handles --- */

CUresult custom_cuLibraryGetModule(int variant, CUmodule *pMod, CUlibrary library) {
    CUresult status = REAL(cuLibraryGetModule, variant)(pMod, library);
    if (loaded_wanted(status))
        loaded_derived(library, *pMod, NULL);
    return status;
}

CUresult custom_cuModuleGetFunction(int variant, CUfunction *hfunc, CUmodule hmod, const char *name) {
    CUresult status = REAL(cuModuleGetFunction, variant)(hfunc, hmod, name);
    if (loaded_wanted(status))
        loaded_derived(hmod, *hfunc, name);
    return status;
}

CUresult custom_cuLibraryGetKernel(int variant, CUkernel *pKernel, CUlibrary library, const char *name) {
    CUresult status = REAL(cuLibraryGetKernel, variant)(pKernel, library, name);
    if (loaded_wanted(status))
        loaded_derived(library, *pKernel, name);
    return status;
}

CUresult custom_cuKernelGetFunction(int variant, CUfunction *pFunc, CUkernel kernel) {
    CUresult status = REAL(cuKernelGetFunction, variant)(pFunc, kernel);
    if (loaded_wanted(status))
        loaded_derived(kernel, *pFunc, NULL);
    return status;
}
