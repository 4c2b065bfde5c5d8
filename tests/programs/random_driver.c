#include "random_program.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define X(f) extern __typeof__(*(pfn_##f)NULL) f;
CALLS(X)
#undef X
#define X(f, suffix) extern __typeof__(*(pfn_##f)NULL) f##suffix;
CALLS_PER_THREAD(X)
#undef X
extern __typeof__(*(pfn_cuGetProcAddress_v2)NULL) cuGetProcAddress_v2;

enum { OF_FIRST_FORMS = 12080, OF_SECOND_FORMS = 13000 }; /* versions at which a base name means the form in CALLS */

struct driver driver;

static const char *const names[] = {
#define X(f) #f,
    CALLS(X)
#undef X
#define X(f, suffix) #f #suffix,
        CALLS_PER_THREAD(X)
#undef X
};

enum { NAMES = sizeof names / sizeof *names };

static atomic_uint counts[NAMES];

static void *ask(const char *name) {
    char base[64];
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    snprintf(base, sizeof base, "%s", name);
    char *per_thread = strstr(base, "_ptsz"), *version = strstr(base, "_v");
    cuuint64_t flags = per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    if (per_thread)
        *per_thread = 0;
    if (version)
        *version = 0;
    emu_spare("cuGetProcAddress");
    driver_check(cuGetProcAddress_v2(base, &found, version ? OF_SECOND_FORMS : OF_FIRST_FORMS, flags, &status), name,
                 __FILE__, __LINE__);
    return found;
}

void driver_find(bool asked) {
#define X(f) driver.f = asked ? (pfn_##f)ask(#f) : f;
    CALLS(X)
#undef X
#define X(f, suffix) driver.f##suffix = asked ? (pfn_##f)ask(#f #suffix) : f##suffix;
    CALLS_PER_THREAD(X)
#undef X
}

void driver_count(const char *name) {
    away_point();
    emu_spare(name);
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            atomic_fetch_add(&counts[i], 1);
}

void driver_check(CUresult result, const char *name, const char *file, int line) {
    if (result == CUDA_SUCCESS)
        return;
    const char *base = strrchr(file, '/');
    printf("%s: error %d (%s:%d)\n", name, (int)result, base ? base + 1 : file, line);
    fflush(NULL);
    _Exit(1);
}

void driver_print_counts(FILE *out) {
    for (int i = 0; i < NAMES; i++) {
        unsigned n = atomic_exchange(&counts[i], 0);
        if (n)
            fprintf(out, "calls %s %u\n", names[i], n);
    }
}
