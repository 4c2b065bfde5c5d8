/* dlsym, dlvsym and dlclose, in every version glibc gave them: CUDA's runtime, Triton, XLA and others find the driver
 * by them. The only file that calls the loader, and only where the program itself is calling it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "driver/elf.h"
#include "driver/real.h"

typedef void *(*dlsym_function)(void *, const char *);
typedef void *(*dlvsym_function)(void *, const char *, const char *);
typedef int (*dlclose_function)(void *);

static dlsym_function real_dlsym(void) {
    static void *_Atomic known;
    return (dlsym_function)elf_next_once(&known, "dlsym");
}

static dlvsym_function real_dlvsym(void) {
    static void *_Atomic known;
    return (dlvsym_function)elf_next_once(&known, "dlvsym");
}

static void *look_up(void *handle, const char *name) {
    return real_dlsym()(handle, name);
}

static bool may_be_hooked(const char *name) {
    return name &&
           ((name[0] == 'c' && name[1] == 'u') || strncmp(name, "nvml", 4) == 0 || strncmp(name, "nccl", 4) == 0);
}

/* What a caller finds that the global scope has not: in a library opened for itself, and in what that is linked with.
 */
static void *in_own_scope(const void *caller, const char *name) {
    Dl_info info;
    void *handle = dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *found = handle ? look_up(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return found && elf_is_ours(found) ? NULL : found;
}

/* The address that without this library would have been found, or NULL: a global look-up finds our own export, also in
 * a program that has no driver. */
static void *without_us(const char *name, void *found, const void *caller) {
    if (!found || !elf_is_ours(found))
        return found;
    if (!(found = look_up(RTLD_NEXT, name)))
        found = in_own_scope(caller, name);
    return found ? found : look_up(RTLD_NEXT, name); /* once more, for dlerror */
}

/* RTLD_NEXT from a caller before this library finds our export. In the global scope it would have found nothing if
 * nothing comes after us. */
static bool ends_with_us(const char *name) {
    return api_by_symbol(name) >= 0 && !look_up(RTLD_NEXT, name);
}

/* Another interposer may stand before the driver: the driver's own function is as good as the real one then. */
static bool is_of_driver(const char *name, const void *found, enum api api) {
    const char *library = real_library(api);
    void *handle = library ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    bool is = handle && look_up(handle, name) == found;
    if (handle)
        dlclose(handle);
    return is;
}

static void *hooked(const char *name, void *found, const void *caller) {
    int key = api_by_symbol(name), variant = key % 2;
    enum api api = (enum api)(key / 2);
    if (key < 0)
        return found;
    if (!(found = without_us(name, found, caller)))
        return NULL;
    void *real = real_find(api, variant);
    void *wrapper = real_wrapper(api, variant, found != real && is_of_driver(name, found, api) ? real : found, caller);
    return wrapper ? wrapper : found;
}

/* RTLD_NEXT where ends_with_us. */
static void *next_in_own_scope(const void *caller, const char *name) {
    Dl_info here, there;
    void *found = in_own_scope(caller, name);
    bool itself = found && dladdr(caller, &here) && dladdr(found, &there) && here.dli_fbase == there.dli_fbase;
    return found && !itself ? hooked(name, found, caller) : look_up(RTLD_NEXT, name);
}

/* Trap: the real dlsym takes RTLD_NEXT and RTLD_DEFAULT relative to its caller, which it knows by its return address.
 * What is not ours must therefore be left by a jump (a sibling call), so that the program stays the caller. */
#ifdef __clang__
#define SIBLING_CALL __attribute__((noinline))
#define LEAVE        __attribute__((musttail)) return
#else
#define SIBLING_CALL __attribute__((noinline, optimize("O2", "optimize-sibling-calls")))
#define LEAVE        return
#endif

SIBLING_CALL static void *our_dlsym(void *handle, const char *name) {
    if (!may_be_hooked(name) || (handle == RTLD_NEXT && !ends_with_us(name)))
        LEAVE real_dlsym()(handle, name);
    if (handle == RTLD_NEXT)
        return next_in_own_scope(__builtin_return_address(0), name);
    void *found = look_up(handle, name);
    if (!found) /* here: perhaps in the caller's own scope */
        LEAVE real_dlsym()(handle, name);
    return hooked(name, found, __builtin_return_address(0));
}

SIBLING_CALL static void *our_dlvsym(void *handle, const char *name, const char *version) {
    if (!may_be_hooked(name) || (handle == RTLD_NEXT && !ends_with_us(name)))
        LEAVE real_dlvsym()(handle, name, version);
    if (handle == RTLD_NEXT)
        return next_in_own_scope(__builtin_return_address(0), name);
    void *found = real_dlvsym()(handle, name, version);
    if (!found)
        LEAVE real_dlvsym()(handle, name, version);
    return hooked(name, found, __builtin_return_address(0));
}

/* A library that we have functions of stays loaded. It is kept here, and not when they are found: that must not wait
 * for the loader. */
static int our_dlclose(void *handle) {
    static void *_Atomic known;
    void *function;
    Dl_info info;
    while ((function = real_to_keep()))
        if (dladdr(function, &info))
            dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return ((dlclose_function)elf_next_once(&known, "dlclose"))(handle);
}

#define EXPORT(our, name) extern __attribute__((alias(#our), visibility("default"))) __typeof__(our) name
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
/* Under the name's first version, and under its newest. */
#define REPLACE(name)                                                                                                  \
    EXPORT(our_##name, name##_old);                                                                                    \
    EXPORT(our_##name, name##_default);                                                                                \
    __asm__(".symver " #name "_old, " #name "@" OLDEST);                                                               \
    __asm__(".symver " #name "_default, " #name "@@GLIBC_2.34")

REPLACE(dlsym);
REPLACE(dlvsym);
REPLACE(dlclose);
