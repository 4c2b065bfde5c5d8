/* Comes to the driver's functions by the way that argv[1] names, and launches.
 *
 *   proc        cuGetProcAddress in its first form
 *   proc-next   cuGetProcAddress_v2, asked for a version of CUDA that nobody knows yet; also for one that is not called
 *   old-dlsym   dlsym as programs linked before glibc 2.34 have it
 *   plugin, plugin-default, plugin-next
 *               a library opened for itself that is linked with the driver, and may look it up; argv[2]: its path */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "ways.h"

enum { FIRST_KNOWN = 12000, NEXT = 99000 };

#ifdef __x86_64__
__asm__(".symver dlsym_of_old, dlsym@GLIBC_2.2.5");
__asm__(".symver dlvsym_of_old, dlvsym@GLIBC_2.2.5");
#else
__asm__(".symver dlsym_of_old, dlsym@GLIBC_2.17");
__asm__(".symver dlvsym_of_old, dlvsym@GLIBC_2.17");
#endif
extern void *dlsym_of_old(void *handle, const char *name);
extern void *dlvsym_of_old(void *handle, const char *name, const char *version);

static void *library;

static void *by_proc(const char *name) {
    void *found = NULL;
    ways_check(((pfn_cuGetProcAddress)dlsym(library, "cuGetProcAddress"))(name, &found, FIRST_KNOWN, 0), name);
    return found;
}

static void *by_proc_next(const char *name) {
    void *found = NULL;
    CUdriverProcAddressQueryResult how;
    pfn_cuGetProcAddress_v2 get = (pfn_cuGetProcAddress_v2)dlsym(library, "cuGetProcAddress_v2");
    ways_check(get(name, &found, NEXT, 0, &how), name);
    return found;
}

static void find(struct driver *d, const char *way) {
#define X(name, symbol)                                                                                                \
    d->name = (pfn_##symbol)(strcmp(way, "proc") == 0        ? by_proc(#name)                                          \
                             : strcmp(way, "proc-next") == 0 ? by_proc_next(#name)                                     \
                                                             : dlsym_of_old(library, #symbol));
    WAYS(X)
#undef X
    if (strcmp(way, "proc-next") == 0)
        by_proc_next("cuGraphNodeGetDependencies");
}

/* The driver's symbols have no versions: what dlvsym says of them. */
static void tell_versions(void) {
    printf("dlvsym %d %d\n", dlvsym(library, "cuLaunchKernel", "NONE") != NULL,
           dlvsym_of_old(library, "cuLaunchKernel", "NONE") != NULL);
}

int main(int argc, char **argv) {
    struct driver d;
    const char *way = argc > 1 ? argv[1] : "old-dlsym";
    if (strncmp(way, "plugin", 6) == 0) {
        void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        void (*run)(const char *) = plugin ? (void (*)(const char *))dlsym(plugin, "run") : NULL;
        if (!run) {
            printf("%s\n", dlerror());
            return 1;
        }
        run(way);
        return 0;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return 1;
    tell_versions();
    find(&d, way);
    ways_work(&d);
    return 0;
}
