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
#include "driver/session.h"
#include "interpose/record/describe.h"

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
    struct image *image; /* NULL: of a form that tells nothing */
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
    free(l);
}

static bool stands_for(const struct named *n, const struct loaded *from, const char *name) {
    return n->from == from && (name ? n->name && strcmp(n->name, name) == 0 : !n->name);
}

/* Under the lock. Without memory the handle stays unknown. */
static void enter(struct loaded *from, uint64_t handle, const char *name) {
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

void loaded_enter(const void *handle, struct image *image) {
    struct loaded *l = malloc(sizeof *l);
    bool stored = false;
    if (l) {
        *l = (struct loaded){.image = image, .self = {.handle = key_of(handle), .from = l}};
        lock_take(&lock);
        struct named *old = hash_put(&handles, l->self.handle, &l->self, &stored);
        if (stored && old && old == &old->from->self)
            drop(old->from);
        lock_drop(&lock);
    }
    if (!stored) {
        image_free(image);
        free(l);
    }
}

bool loaded_wanted(CUresult status) {
    return status == CUDA_SUCCESS && session_on && !driver_tells_parameters();
}

void loaded_derived(const void *from, const void *to, const char *name) {
    lock_take(&lock);
    struct named *n = hash_get(&handles, key_of(from));
    if (n)
        enter(n->from, key_of(to), name ? name : n->name);
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

struct loaded *loaded_unload_begin(const void *handle) {
    lock_take(&lock);
    struct named *n = hash_get(&handles, key_of(handle));
    struct loaded *l = n && n == &n->from->self ? n->from : NULL;
    if (l)
        hash_take(&handles, n->handle);
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

struct image *loaded_read(const char *path) {
    struct image *image = NULL;
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    if (fstat(file, &about) == 0 && about.st_size > 0) {
        size_t bytes = (size_t)about.st_size;
        void *content = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (content != MAP_FAILED) {
            image = image_read(content, bytes);
            munmap(content, bytes);
        }
    }
    close(file);
    return image;
}
