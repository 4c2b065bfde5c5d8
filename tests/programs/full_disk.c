/* Preloaded: files in the folder DISK take no bytes from offset DISK_ROOM on. With DISK_RESERVES that is told when they
 * are reserved, else when they are written, and nothing can be reserved. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool lies_there(int file) {
    char name[32], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return readlink(name, path, sizeof path - 1) > 0 && strncmp(path, getenv("DISK"), strlen(getenv("DISK"))) == 0;
}

static bool has_room(int file, off_t end) {
    return !lies_there(file) || end <= atol(getenv("DISK_ROOM"));
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
    bool reserves = getenv("DISK_RESERVES") || !lies_there(file);
    if (reserves && has_room(file, at + bytes))
        return (int)syscall(SYS_fallocate, file, mode, at, bytes);
    errno = reserves ? ENOSPC : EOPNOTSUPP;
    return -1;
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at) {
    if (has_room(file, at + (off_t)bytes))
        return syscall(SYS_pwrite64, file, from, bytes, at);
    errno = EIO;
    return -1;
}
