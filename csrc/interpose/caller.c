#define _GNU_SOURCE
#include "interpose/caller.h"

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/options.h"
#include "interpose/frame.h"

enum { RANGES = 64 };

static const char *const plain[] = {"libnccl", "libnvshmem", "libucs", "libuct", "libucp", NULL};
static const char *const exportable[] = {"xla_cuda_plugin", "libtensorflow", "_pywrap_tensorflow", NULL};

enum { IS_PLAIN = 1, IS_EXPORTABLE = 2 };

struct range {
    uintptr_t start, end;
    unsigned is;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES];
static int count;
static unsigned long long loaded, unloaded; /* as the loader counted when the ranges were read */

static bool begins(const char *text, const char *with, size_t length) {
    return length > 0 && strncmp(text, with, length) == 0;
}

static bool among(const char *const *names, const char *file) {
    while (*names && !begins(file, *names, strlen(*names)))
        names++;
    return *names != NULL;
}

static bool exempt(const char *file) {
    for (const char *word = ulms_options.plain; *word; word += *word == ',') {
        size_t length = strcspn(word, ",");
        if (begins(file, word, length))
            return true;
        word += length;
    }
    return false;
}

static unsigned what(const char *path) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    return (among(plain, file) || exempt(file) ? IS_PLAIN : 0) | (among(exportable, file) ? IS_EXPORTABLE : 0);
}

static int changed(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    bool same = info->dlpi_adds == loaded && info->dlpi_subs == unloaded;
    loaded = info->dlpi_adds;
    unloaded = info->dlpi_subs;
    return same ? 2 : 1;
}

static int read_one(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    unsigned is = info->dlpi_name ? what(info->dlpi_name) : 0;
    if (!is)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && count < RANGES; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && p->p_flags & PF_X)
            ranges[count++] =
                (struct range){info->dlpi_addr + p->p_vaddr, info->dlpi_addr + p->p_vaddr + p->p_memsz, is};
    }
    return 0;
}

static unsigned inside(uintptr_t at) {
    for (int i = 0; i < count; i++)
        if (at >= ranges[i].start && at < ranges[i].end)
            return ranges[i].is;
    return 0;
}

static bool any_known(void) {
    pthread_mutex_lock(&lock);
    if (dl_iterate_phdr(changed, NULL) == 1) {
        count = 0;
        dl_iterate_phdr(read_one, NULL);
    }
    bool any = count > 0;
    pthread_mutex_unlock(&lock);
    return any;
}

static unsigned callers(void) {
    void *frames[FRAME_MAX];
    unsigned found = 0;
    int depth = any_known() ? frame_list(frames) : 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < depth; i++)
        found |= inside((uintptr_t)frames[i]);
    pthread_mutex_unlock(&lock);
    return found;
}

bool caller_stays_plain(void) {
    return callers() & IS_PLAIN;
}

bool caller_always_exportable(void) {
    return callers() & IS_EXPORTABLE;
}
