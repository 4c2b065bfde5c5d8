#define _GNU_SOURCE
#include "library/lookalike.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

static void nothing(struct emu_launch *launch) {
    (void)launch;
}

static struct emu_param layout[LOOKALIKE_HELD_MAX];
static const struct emu_kernel kernel = {"library", layout, LOOKALIKE_HELD_MAX, nothing};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                          void **, void **);
static CUkernel loaded;
static bool hidden, idle;

/* The driver is found as the real libraries find it: by name, when the first call comes. */
static void start(void) {
    const char *how = getenv("EMU_LIBRARY");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return;
    CUresult (*load)(CUlibrary *, const void *, void *, void *, unsigned, void *, void *, unsigned) =
        (__typeof__(load))dlsym(driver, "cuLibraryLoadData");
    CUresult (*get)(CUkernel *, CUlibrary, const char *) = (__typeof__(get))dlsym(driver, "cuLibraryGetKernel");
    CUlibrary library;
    for (unsigned i = 0; i < LOOKALIKE_HELD_MAX; i++)
        layout[i] = (struct emu_param){8 * i, 8};
    hidden = how && strcmp(how, "hidden") == 0;
    idle = how && strcmp(how, "idle") == 0;
    if (load(&library, &image, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS &&
        get(&loaded, library, "library") == CUDA_SUCCESS)
        launch = (__typeof__(launch))dlsym(driver, "cuLaunchKernel");
}

bool lookalike_run(CUstream stream, const void *const *held, unsigned count) {
    const void *values[LOOKALIKE_HELD_MAX];
    void *arguments[LOOKALIKE_HELD_MAX];
    pthread_once(&once, start);
    if (idle)
        return true;
    if (!launch || count > LOOKALIKE_HELD_MAX)
        return false;
    for (unsigned i = 0; i < LOOKALIKE_HELD_MAX; i++) {
        values[i] = i < count && !hidden ? held[i] : NULL;
        arguments[i] = &values[i];
    }
    return launch((CUfunction)loaded, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) == CUDA_SUCCESS;
}
