/* A plugin that calls the driver it is linked with: directly, or as dlsym finds it in the plugin's own scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "ways.h"

#define X(name, symbol) extern __typeof__(*(pfn_##symbol)NULL) symbol;
WAYS(X)
#undef X

void run(const char *way) {
#define X(name, symbol) symbol,
    struct driver d = {WAYS(X)};
#undef X
    void *where = strcmp(way, "plugin-next") == 0 ? RTLD_NEXT : RTLD_DEFAULT;
#define X(name, symbol) d.name = (pfn_##symbol)dlsym(where, #symbol);
    if (strcmp(way, "plugin")) {
        WAYS(X)
    }
#undef X
    ways_work(&d);
}
