#include "base/host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/larger.h"

/* Trap: asked once, on a thread of the program whose stack may be small. What is large here is static. */
enum { TEXT_MAX = 8192 };

/* A file's text, "" when it cannot be read. */
static const char *text_of(const char *path, char text[TEXT_MAX]) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, text, TEXT_MAX - 1);
    if (file >= 0)
        close(file);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static uint64_t available(char text[TEXT_MAX]) {
    const char *row = strstr(text_of("/proc/meminfo", text), "MemAvailable:");
    return row ? strtoull(row + 13, NULL, 10) << 10 : 0;
}

static const char *text_in(const char *directory, const char *file, char text[TEXT_MAX]) {
    static char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", directory, file);
    return text_of(n > 0 && (size_t)n < sizeof path ? path : "", text);
}

/* What a directory of the hierarchy leaves; UINT64_MAX: it sets no limit. */
static uint64_t left_in(const char *directory, const char *limit, const char *usage, char text[TEXT_MAX]) {
    const char *most = text_in(directory, limit, text);
    if (*most < '0' || *most > '9') /* "max", or no such file */
        return UINT64_MAX;
    uint64_t bytes = strtoull(most, NULL, 10), used = strtoull(text_in(directory, usage, text), NULL, 10);
    return bytes > used ? bytes - used : 0;
}

/* The smallest that a group or one above it leaves. */
static uint64_t left_above(const char *mount, const char *group, const char *limit, const char *usage,
                           char text[TEXT_MAX]) {
    static char directory[PATH_MAX];
    uint64_t least = UINT64_MAX;
    int n = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof directory)
        return least;
    for (size_t root = strlen(mount);;) {
        least = smaller(least, left_in(directory, limit, usage, text));
        char *slash = strrchr(directory + root, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static uint64_t left_by_groups(char text[TEXT_MAX]) {
    static char groups[TEXT_MAX];
    uint64_t least = UINT64_MAX;
    text_of("/proc/self/cgroup", groups);
    for (char *rest, *row = strtok_r(groups, "\n", &rest); row; row = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(row, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        if (!*controllers)
            least = smaller(least, left_above("/sys/fs/cgroup", group, "memory.max", "memory.current", text));
        else if (strcmp(controllers, "memory") == 0)
            least = smaller(least, left_above("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                              "memory.usage_in_bytes", text));
    }
    return least;
}

uint64_t host_memory(void) {
    static char text[TEXT_MAX];
    uint64_t free_bytes = available(text);
    return free_bytes ? smaller(free_bytes, left_by_groups(text)) : 0;
}
