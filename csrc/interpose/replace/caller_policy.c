#include "interpose/replace/caller_policy.h"

#include <string.h>

#include "base/options.h"
#include "driver/frame.h"

static const char *const plain[] = {"libnccl", "libnvshmem", "libucs", "libuct", "libucp", NULL};
static const char *const exportable[] = {"xla_cuda_plugin", "libtensorflow", "_pywrap_tensorflow", NULL};

enum { IS_PLAIN = 1, IS_EXPORTABLE = 2 };

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

static unsigned callers(void) {
    void *frames[FRAME_MAX];
    unsigned found = 0;
    for (int i = frame_list(frames); i > 0; i--)
        found |= what(frame_path(frames[i - 1]));
    return found;
}

bool caller_stays_plain(void) {
    return callers() & IS_PLAIN;
}

bool caller_always_exportable(void) {
    return callers() & IS_EXPORTABLE;
}
