#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "base/hot.h"
#include "interpose/elf.h"
#include "interpose/look_up.h"
#include "interpose/wrap.h"

HOT_FIRST __attribute__((aligned(HOT_LINE))) void *api_real[API_COUNT][2];

static const char *const library_names[] = {[LIBRARY_CUDA] = "libcuda.so.1", [LIBRARY_NVML] = "libnvidia-ml.so.1"};

/* Whatever file the library came from: copies of it in Python packages are renamed, the version of their symbols stays.
 * Never the first to load a library: a program that has not loaded it has no function of it to call. */
static void *open_loaded(enum library which, int variant) {
    char path[PATH_MAX];
    const char *version = library_versions[which][variant];
    if (!library_versions[which][0])
        return dlopen(library_names[which], RTLD_LAZY | RTLD_NOLOAD);
    return version && elf_defines(version, path, sizeof path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

static void *library(enum library which, int variant) {
    static void *handles[LIBRARY_COUNT][2];
    void *handle = __atomic_load_n(&handles[which][variant], __ATOMIC_ACQUIRE);
    if (!handle) {
        handle = open_loaded(which, variant);
        __atomic_store_n(&handles[which][variant], handle, __ATOMIC_RELEASE);
    }
    return handle;
}

void real_offer(enum api api, int variant, void *function) {
    void *none = NULL;
    __atomic_compare_exchange_n(&api_real[api][variant], &none, function, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void *find(const struct api_row *row, int variant) {
    char symbol[128];
    void *handle = library(row->library, variant);
    const char *version = library_versions[row->library][variant];
    if (!handle)
        return NULL;
    if (version)
        return look_up_version(handle, row->symbol, version);
    snprintf(symbol, sizeof symbol, "%s%s", row->symbol, variant ? row->thread_suffix : "");
    return look_up(handle, symbol);
}

void *real_find(enum api api, int variant) {
    void *function = __atomic_load_n(&api_real[api][variant], __ATOMIC_ACQUIRE);
    if (function)
        return function;
    function = find(&api_rows[api], variant);
    if (function)
        real_offer(api, variant, function);
    return function;
}

SELDOM void *real_first(enum api api, int variant) {
    void *function = real_find(api, variant);
    return function ? function : api_absent[api][variant];
}

void *real_wrapper(enum api api, int variant, void *found) {
    const struct api_row *row = &api_rows[api];
    if (!row->wrapper[0])
        return NULL;
    if (!library_versions[row->library][0]) {
        real_offer(api, variant, found);
        return row->wrapper[variant];
    }
    for (int v = 0; v < 2; v++)
        if (real_find(api, v) == found)
            return row->wrapper[v];
    return NULL;
}
