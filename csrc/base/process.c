#include "base/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The field is the 22nd; the second holds the name in brackets, and a name may hold anything, brackets too. */
uint64_t process_start(void) {
    enum { FIELD = 22, AFTER_NAME = 2 };
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    const char *p = strrchr(text, ')');
    for (int field = AFTER_NAME; p && field < FIELD; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

void process_name(char *out, size_t size) {
    static char path[4096]; /* asked once a process: a stack may be small */
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strnlen(name, size - 1);
    memcpy(out, name, length);
    out[length] = 0;
}
