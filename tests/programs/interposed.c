/* A program linked with the driver that comes to its functions by the way that argv[1] names: linked; handle, default
 * or next, for dlsym with the library's handle, RTLD_DEFAULT or RTLD_NEXT; proc, for cuGetProcAddress. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "ways.h"

#define X(name, symbol) extern __typeof__(*(pfn_##symbol)NULL) symbol;
WAYS(X)
#undef X
extern __typeof__(*(pfn_cuGetProcAddress_v2)NULL) cuGetProcAddress_v2;

static void *by_proc(const char *name) {
    void *found = NULL;
    CUdriverProcAddressQueryResult how;
    ways_check(cuGetProcAddress_v2(name, &found, 12000, 0, &how), name);
    return found;
}

static void *by_name(const char *way, const char *symbol) {
    void *where = strcmp(way, "default") == 0 ? RTLD_DEFAULT
                  : strcmp(way, "next") == 0  ? RTLD_NEXT
                                              : dlopen("libcuda.so.1", RTLD_NOW);
    return dlsym(where, symbol);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "linked";
#define X(name, symbol) symbol,
    struct driver d = {WAYS(X)};
#undef X
#define X(name, symbol) d.name = (pfn_##symbol)(strcmp(way, "proc") == 0 ? by_proc(#name) : by_name(way, #symbol));
    if (strcmp(way, "linked")) {
        WAYS(X)
    }
#undef X
    ways_work(&d);
    return 0;
}
