/* Modules and libraries: their variables are device memory, and their function handles end with them. */
#include "driver/real.h"
#include "driver/session.h"
#include "interpose/image.h"
#include "interpose/memory.h"

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
