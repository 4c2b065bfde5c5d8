#define _GNU_SOURCE
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

struct status {
    char state; /* 0: there is no such process */
    uint64_t start;
};

/* What a small file of the kernel's says; empty: it cannot be read. */
static void read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
}

/* The fields are the 3rd and the 22nd; the second holds the name in brackets, and a name may hold anything, brackets
 * too. */
static struct status read_status(const char *path) {
    enum { FIELD = 22, AFTER_NAME = 2 };
    char text[1024];
    read_text(path, text, sizeof text);
    const char *p = strrchr(text, ')');
    struct status s = {.state = p && p[1] ? p[2] : 0};
    for (int field = AFTER_NAME; p && field < FIELD; field++)
        p = strchr(p + 1, ' ');
    s.start = p ? strtoull(p, NULL, 10) : 0;
    return s;
}

/* Clock ticks by which the kernel shifts what /proc tells this process of starts: one that was restarted from a disk
 * has a time namespace of its own. The others see the start itself, give or take a tick. */
static uint64_t shift(void) {
    char text[128];
    read_text("/proc/self/timens_offsets", text, sizeof text);
    const char *p = strstr(text, "boottime");
    long seconds = 0, ns = 0, ticks = sysconf(_SC_CLK_TCK);
    if (!p || sscanf(p, "boottime %ld %ld", &seconds, &ns) != 2)
        return 0;
    return (uint64_t)(seconds * ticks + ns / (1000000000 / ticks));
}

uint64_t process_start(void) {
    return read_status("/proc/self/stat").start - shift();
}

bool process_runs(uint32_t pid, uint64_t start) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    struct status s = read_status(path);
    return s.state && s.state != 'Z' && s.state != 'X' && s.start - shift() - start + 1 <= 2; /* one apart at most */
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

/* --- memory that may not be readable --- */

/* A sandbox may refuse the call: gVisor does, and so do seccomp profiles of containers. */
static bool call_refused;

/* A program may enter its sandbox at any time. */
static bool is_refused(void) {
    return __builtin_expect(__atomic_load_n(&call_refused, __ATOMIC_RELAXED), 0);
}

static size_t by_call(void *to, size_t bytes, const struct iovec *from, size_t n) {
    struct iovec local = {to, bytes};
    if (is_refused())
        return 0;
    ssize_t got = process_vm_readv(getpid(), &local, 1, from, n, 0);
    if (got < 0 && errno != EFAULT)
        __atomic_store_n(&call_refused, true, __ATOMIC_RELAXED);
    return got < 0 ? 0 : (size_t)got;
}

/* Through a pipe of its own: one that stayed open could be closed by the program, and its number given to a file. */
static size_t by_pipe(char *to, const char *from, size_t bytes) {
    enum { PIECE = 4096 }; /* of one page of memory: it comes whole or not at all */
    size_t done = 0, piece;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return 0;
    for (; done < bytes; done += piece) {
        size_t in_page = PIECE - (uintptr_t)(from + done) % PIECE;
        piece = bytes - done < in_page ? bytes - done : in_page;
        if (write(ends[1], from + done, piece) != (ssize_t)piece || read(ends[0], to + done, piece) != (ssize_t)piece)
            break;
    }
    close(ends[0]);
    close(ends[1]);
    return done;
}

size_t process_read(void *to, const void *from, size_t bytes) {
    struct iovec remote = {(void *)(uintptr_t)from, bytes};
    size_t done = by_call(to, bytes, &remote, 1);
    return is_refused() ? by_pipe(to, from, bytes) : done;
}

size_t process_read_pieces(void *to, size_t bytes, void *const *from, size_t n) {
    struct iovec remote[PROCESS_PIECES];
    for (size_t i = 0; i < n; i++)
        remote[i] = (struct iovec){from[i], bytes};
    size_t done = by_call(to, n * bytes, remote, n) / bytes;
    while (is_refused() && done < n && by_pipe((char *)to + done * bytes, from[done], bytes) == bytes)
        done++;
    return done;
}

bool process_reads(void) {
    static const uint64_t known = 0x756c6d7320726561;
    static bool told;
    uint64_t read = 0;
    struct iovec remote = {(void *)(uintptr_t)&known, sizeof known};
    bool call = by_call(&read, sizeof read, &remote, 1) == sizeof read && read == known;
    bool pipe = call || (by_pipe((char *)&read, (const char *)&known, sizeof read) == sizeof read && read == known);
    if (!call)
        __atomic_store_n(&call_refused, true, __ATOMIC_RELAXED);
    if (!call && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        log_warn("process_vm_readv is refused here: %s",
                 pipe ? "addresses that copies bring to the device are read through a pipe, which takes longer"
                      : "nor does a pipe read what copies bring to the device, so kernels may use any address (as with "
                        "ULMS_HIDDEN=any)");
    return pipe;
}
