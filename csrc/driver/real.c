/* Which function is the real one. A reference to the driver's function finds this library's wrapper first. The real
 * function is what that reference would have found without us:
 *
 *   1. that of another interposer, or of a driver, which the program was linked with or which is preloaded behind us;
 *   2. else that of the driver: the object that dlopen("libcuda.so.1") answers;
 *   3. else, while there is no driver, that of the first object that has one.
 *
 * A caller that looks the function up by itself gets the wrapper instead of what it found, if that is the real function
 * or the driver's. It keeps what it found if it stands in this chain itself: the wrapper's call would come back to it.
 * A driver that forwards keeps the functions of the one behind it, which are neither. The same holds for NVML, and for
 * cuBLAS and cuDNN with "defines symbols of the version" for the name, as Python packages rename the files.
 *
 * Nothing here calls the loader: all functions of a library are found at the first call of one. */
#define _GNU_SOURCE
#include <string.h>

#include "base/hot.h"
#include "driver/elf.h"
#include "driver/real.h"

HOT_FIRST __attribute__((aligned(HOT_LINE))) void *api_real[API_COUNT][2];

/* A library whose symbols carry versions has functions of its own for each; both variants of others are of one. */
struct part {
    enum library library;
    const char *version;
    int first, last; /* variants */
    bool before;     /* also where it stands before us: then no reference comes to us, unless we were opened late */
};

static bool has_versions(enum library library) {
    return library_versions[library][0] != NULL;
}

static struct part part_of(enum library library, int variant) {
    if (has_versions(library))
        return (struct part){library, library_versions[library][variant], variant, variant, false};
    return (struct part){library, NULL, 0, 1, false};
}

static bool is_library(const struct elf_object *o, const struct part *part) {
    if (o->place == ELF_BEFORE && !part->before)
        return false;
    if (has_versions(part->library))
        return part->version && elf_has_version(o, part->version);
    return elf_is_named(o, library_names[part->library]);
}

static void *in_object(const struct elf_object *o, const struct part *part, enum api api, int variant) {
    char symbol[128];
    const struct api_row *row = &api_rows[api];
    const char *suffix = !part->version && variant ? row->thread_suffix : NULL;
    if (!suffix)
        return elf_function(o, row->symbol, part->version);
    stpcpy(stpcpy(symbol, row->symbol), suffix);
    return elf_function(o, symbol, NULL);
}

void real_offer(enum api api, int variant, void *function) {
    void *known = __atomic_load_n(&api_real[api][variant], __ATOMIC_RELAXED);
    if (known == NULL || known == api_absent[api][variant])
        __atomic_compare_exchange_n(&api_real[api][variant], &known, function, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
}

/* The functions of the part that the object has, and that no object before it had. */
static void fill(const struct elf_object *o, const struct part *part) {
    void *one = NULL;
    for (int api = 0; api < API_COUNT; api++)
        for (int v = part->first; api_rows[api].library == part->library && v <= part->last; v++) {
            if (__atomic_load_n(&api_real[api][v], __ATOMIC_ACQUIRE))
                continue;
            void *found = in_object(o, part, (enum api)api, v);
            if (found)
                real_offer((enum api)api, v, one = found);
        }
    if (one && o->place == ELF_LATER)
        real_keep(one);
}

static bool fill_linked(const struct elf_object *o, void *data) {
    if (o->place == ELF_LINKED)
        fill(o, data);
    return false;
}

static bool visit_library(const struct elf_object *o, void *data) {
    return is_library(o, data);
}

/* The driver is one object. A version may be that of several: cuDNN comes in parts. */
static bool fill_library(const struct elf_object *o, void *data) {
    const struct part *part = data;
    if (!is_library(o, part))
        return false;
    fill(o, part);
    return !part->version;
}

static bool fill_later(const struct elf_object *o, void *data) {
    if (o->place == ELF_LATER)
        fill(o, data);
    return false;
}

static void fill_absent(const struct part *part) {
    for (int api = 0; api < API_COUNT; api++)
        for (int v = part->first; api_rows[api].library == part->library && v <= part->last; v++)
            real_offer((enum api)api, v, api_absent[api][v]);
}

/* Never the first to load a library: a program that has not loaded it has no function of it to call. */
static void resolve(enum library library, int variant) {
    struct part part = part_of(library, variant);
    bool loaded = elf_walk(visit_library, &part);
    part.before = !loaded;
    loaded |= part.before && elf_walk(visit_library, &part);
    if (!loaded && has_versions(library))
        return;
    elf_walk(fill_linked, &part);
    elf_walk(loaded ? fill_library : fill_later, &part);
    if (loaded)
        fill_absent(&part);
}

SELDOM void *real_first(enum api api, int variant) {
    resolve((enum library)api_rows[api].library, variant);
    void *function = __atomic_load_n(&api_real[api][variant], __ATOMIC_ACQUIRE);
    return function ? function : api_absent[api][variant];
}

void *real_find(enum api api, int variant) {
    void *function = __atomic_load_n(&api_real[api][variant], __ATOMIC_ACQUIRE);
    if (!function)
        function = real_first(api, variant);
    return function == api_absent[api][variant] ? NULL : function;
}

struct asked {
    struct part part;
    const void *address;
    bool is;
};

static bool has_any_wrapped(const struct elf_object *o, const struct part *part) {
    for (int api = 0; api < API_COUNT; api++)
        if (api_rows[api].library == part->library && api_rows[api].wrapper[0] &&
            in_object(o, part, (enum api)api, part->first))
            return true;
    return false;
}

static bool holds_any_real(const struct elf_object *o, const struct part *part) {
    for (int api = 0; api < API_COUNT; api++)
        for (int v = part->first; api_rows[api].library == part->library && v <= part->last; v++)
            if (elf_holds(o, __atomic_load_n(&api_real[api][v], __ATOMIC_RELAXED)))
                return true;
    return false;
}

static bool ask_chain(const struct elf_object *o, void *data) {
    struct asked *asked = data;
    if (!elf_holds(o, asked->address))
        return false;
    asked->is = (o->place == ELF_LINKED && has_any_wrapped(o, &asked->part)) || is_library(o, &asked->part) ||
                holds_any_real(o, &asked->part);
    return true;
}

bool real_comes_to(enum api api, const void *address) {
    struct asked asked = {.part = part_of((enum library)api_rows[api].library, 0), .address = address};
    real_find(api, 0);
    elf_walk(ask_chain, &asked);
    return asked.is;
}

const char *real_library(enum api api) {
    enum library library = (enum library)api_rows[api].library;
    return has_versions(library) ? NULL : library_names[library];
}

void *real_wrapper(enum api api, int variant, void *found, const void *caller) {
    const struct api_row *row = &api_rows[api];
    if (!row->wrapper[0])
        return NULL;
    if (!has_versions((enum library)row->library))
        return found == real_find(api, variant) && !real_comes_to(api, caller) ? row->wrapper[variant] : NULL;
    /* cuDNN's parts find each other's functions by name: a wrapper would send them back to themselves */
    for (int v = 0; v < 2; v++)
        if (real_find(api, v) == found)
            return row->wrapper[v];
    return NULL;
}

enum { KEEP_MAX = 64 };
static void *to_keep[KEEP_MAX];

void real_keep(void *function) {
    for (int i = 0; i < KEEP_MAX; i++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&to_keep[i], &none, function, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ||
            none == function)
            return;
    }
}

void *real_to_keep(void) {
    for (int i = 0; i < KEEP_MAX; i++) {
        void *function = __atomic_exchange_n(&to_keep[i], NULL, __ATOMIC_ACQ_REL);
        if (function)
            return function;
    }
    return NULL;
}
