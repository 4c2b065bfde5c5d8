#define _GNU_SOURCE
#include "interpose/record/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "driver/session.h"
#include "interpose/record/describe.h"
#include "launch/image.h"

/* A handle and what it stands for: a kernel of an image, or (without a name) the image itself. */
struct named {
    uint64_t handle;
    struct loaded *from;
    char *name;
    struct named *next;
};

/* An image and the handles that came out of it. A handle may be given again to another image without an unload: its
 * context went. It then stands in both lists, and in the map for the later one. */
struct loaded {
    struct image *image;      /* NULL: of a form that tells nothing, or the driver tells */
    struct code_source *code; /* NULL: it is not read */
    struct named self;
    struct named *first;
};

static struct lock lock;
static struct hash handles; /* to struct named */

static uint64_t key_of(const void *handle) {
    return (uint64_t)(uintptr_t)handle;
}

static void forget(struct named *n) {
    if (hash_get(&handles, n->handle) == n)
        hash_take(&handles, n->handle);
}

/* Under the lock. */
static void drop(struct loaded *l) {
    for (struct named *n = l->first, *next; n; n = next) {
        next = n->next;
        forget(n);
        free(n->name);
        free(n);
    }
    forget(&l->self);
    image_free(l->image);
    code_source_close(l->code);
    free(l);
}

static bool stands_for(const struct named *n, const struct loaded *from, const char *name) {
    return n->from == from && (name ? n->name && strcmp(n->name, name) == 0 : !n->name);
}

/* Under the lock. Without memory the handle stays unknown. */
static void image_enter(struct loaded *from, uint64_t handle, const char *name) {
    struct named *old = hash_get(&handles, handle);
    if (old && stands_for(old, from, name))
        return;
    struct named *n = malloc(sizeof *n);
    bool stored = false;
    if (n) {
        *n = (struct named){.handle = handle, .from = from, .name = name ? strdup(name) : NULL, .next = from->first};
        if (n->name || !name)
            hash_put(&handles, handle, n, &stored);
    }
    if (stored) {
        from->first = n;
    } else if (n) {
        free(n->name);
        free(n);
    }
}

static void enter_image(const void *handle, struct image *image, struct code_source *code) {
    struct loaded *l = malloc(sizeof *l);
    bool stored = false;
    if (l) {
        *l = (struct loaded){.image = image, .code = code, .self = {.handle = key_of(handle), .from = l}};
        lock_take(&lock);
        struct named *old = hash_put(&handles, l->self.handle, &l->self, &stored);
        if (stored && old && old == &old->from->self)
            drop(old->from);
        lock_drop(&lock);
    }
    if (!stored) {
        image_free(image);
        code_source_close(code);
        free(l);
    }
}

static void enter_content(const void *handle, const void *start, uint64_t bytes, bool stays, bool changed) {
    if (!driver_tells_parameters())
        enter_image(handle, image_read(start, bytes), NULL);
    else
        enter_image(handle, NULL, changed ? NULL : code_source_open(start, bytes, stays));
}

void loaded_enter(const void *handle, const void *start, bool stays, bool changed) {
    enter_content(handle, start, CODE_UNSIZED, stays, changed);
}

void loaded_enter_file(const void *handle, const char *path) {
    void *content = MAP_FAILED;
    size_t bytes = 0;
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0) {
        bytes = (size_t)about.st_size;
        content = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    }
    enter_content(handle, content == MAP_FAILED ? NULL : content, bytes, false, false);
    if (content != MAP_FAILED)
        munmap(content, bytes);
    if (file >= 0)
        close(file);
}

bool loaded_wanted(CUresult status) {
    return status == CUDA_SUCCESS && session_on && (kernel_code_on() || !driver_tells_parameters());
}

/* Of all devices; 0: they differ, or the driver does not tell. */
static uint32_t architecture(void) {
    int major = 0, minor = 0;
    uint32_t all = 0;
    for (int d = 0; d < session.devices; d++) {
        if (REAL(cuDeviceGetAttribute, 0)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d) != CUDA_SUCCESS ||
            REAL(cuDeviceGetAttribute, 0)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d) != CUDA_SUCCESS)
            return 0;
        uint32_t one = (uint32_t)(10 * major + minor);
        if (all && all != one)
            return 0;
        all = one;
    }
    return all;
}

/* The driver ignores cubins then. */
static bool always_compiles(void) {
    static const char *const names[] = {"CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT"};
    bool any = false;
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(names[i]);
        any |= text && *text && *text != '0';
    }
    return any;
}

void loaded_begin(void) {
    bool trusts = ulms_options.mode == MODE_VMM || (ulms_options.mode == MODE_OBSERVE && *ulms_options.trace);
    if (!trusts || ulms_options.hidden == HIDDEN_ANY)
        return;
    uint32_t all = driver_tells_parameters() && !always_compiles() ? architecture() : 0;
    if (!all)
        log_info("kernels are not read: the driver is older than CUDA 12.4, devices differ, or CUDA_FORCE_PTX_JIT or "
                 "CUDA_FORCE_JIT is set");
    kernel_code_begin(all);
}

void loaded_derived(const void *from, const void *to, const char *name) {
    lock_take(&lock);
    struct named *n = hash_get(&handles, key_of(from));
    if (n)
        image_enter(n->from, key_of(to), name ? name : n->name);
    if (n && name && n->from->code && code_source_eager(n->from->code))
        kernel_code_of(n->from->code, name);
    lock_drop(&lock);
}

void loaded_describe(uint64_t handle, struct layout *out) {
    lock_take(&lock);
    const struct named *n = hash_get(&handles, handle);
    if (n && n->name) {
        snprintf(out->name, sizeof out->name, "%s", n->name);
        if (n->from->image)
            image_layout(n->from->image, n->name, out);
    }
    lock_drop(&lock);
}

bool loaded_code(uint64_t handle, const char *kernel, const struct kernel_code **out) {
    lock_take(&lock);
    const struct named *n = hash_get(&handles, handle);
    if (n && n->from->code && (!n->name || strcmp(n->name, kernel) == 0))
        *out = kernel_code_of(n->from->code, kernel);
    lock_drop(&lock);
    return n;
}

struct loaded *loaded_unload_begin(const void *handle) {
    lock_take(&lock);
    struct named *n = hash_get(&handles, key_of(handle));
    struct loaded *l = n && n == &n->from->self ? n->from : NULL;
    if (l) {
        hash_take(&handles, n->handle);
        code_source_close(l->code);
        l->code = NULL;
    }
    lock_drop(&lock);
    return l;
}

void loaded_unload_end(struct loaded *going, CUresult status) {
    bool kept = false;
    if (!going)
        return;
    lock_take(&lock);
    if (status != CUDA_SUCCESS)
        hash_put(&handles, going->self.handle, &going->self, &kept);
    if (!kept)
        drop(going);
    lock_drop(&lock);
}

static bool is_image(const void *value, const void *unused) {
    (void)unused;
    const struct named *n = value;
    return n == &n->from->self;
}

void loaded_forget(void) {
    struct named *n;
    lock_take(&lock);
    while (kernel_code_on() && (n = hash_take_any(&handles, is_image, NULL)))
        drop(n->from);
    lock_drop(&lock);
}
