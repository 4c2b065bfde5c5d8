#include "base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct status {
    char state; /* 0: there is no such process */
    uint64_t start;
};

/* The fields are the 3rd and the 22nd; the second holds the name in brackets, and a name may hold anything, brackets
 * too. */
static struct status read_status(const char *path) {
    enum { FIELD = 22, AFTER_NAME = 2 };
    char text[1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    const char *p = strrchr(text, ')');
    struct status s = {.state = p && p[1] ? p[2] : 0};
    for (int field = AFTER_NAME; p && field < FIELD; field++)
        p = strchr(p + 1, ' ');
    s.start = p ? strtoull(p, NULL, 10) : 0;
    return s;
}

uint64_t process_start(void) {
    return read_status("/proc/self/stat").start;
}

bool process_runs(uint32_t pid, uint64_t start) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    struct status s = read_status(path);
    return s.state && s.state != 'Z' && s.state != 'X' && s.start == start;
}

uint64_t process_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
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
