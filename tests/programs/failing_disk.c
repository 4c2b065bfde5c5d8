/* Preloaded: of the calls named in DISK_FAIL=NAME:AFTER:ERROR:TIMES on files in the folder DISK so many fail, behind so
 * many that do not. Error 0: it does half of it. At the end it prints how many did. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    char name[16];
    int after, error, times;
} rule;
static atomic_int calls, failed;

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("DISK_FAIL");
    if (text && sscanf(text, "%15[^:]:%d:%d:%d", rule.name, &rule.after, &rule.error, &rule.times) != 4)
        exit(2);
}

__attribute__((destructor)) static void end(void) {
    if (failed)
        fprintf(stderr, "failed %d\n", failed);
}

static bool fails(const char *name, int file) {
    char link[32], path[4096] = "";
    if (strcmp(name, rule.name) != 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) <= 0 || strncmp(path, getenv("DISK"), strlen(getenv("DISK"))) != 0)
        return false;
    int call = atomic_fetch_add(&calls, 1);
    bool is = call >= rule.after && call < rule.after + rule.times;
    failed += is;
    return is;
}

static bool refuses(void) {
    errno = rule.error;
    return rule.error != 0;
}

int fallocate(int file, int mode, off_t at, off_t bytes) {
    if (fails("fallocate", file) && refuses())
        return -1;
    return (int)syscall(SYS_fallocate, file, mode, at, bytes);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at) {
    bool fail = fails("pwrite", file);
    if (fail && refuses())
        return -1;
    return syscall(SYS_pwrite64, file, from, fail ? bytes / 2 : bytes, at);
}

ssize_t pread(int file, void *to, size_t bytes, off_t at) {
    bool fail = fails("pread", file);
    if (fail && refuses())
        return -1;
    return syscall(SYS_pread64, file, to, fail ? bytes / 2 : bytes, at);
}
