#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool write_all(int fd, const char *at, size_t left) {
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    return true;
}

/* A signal that was pending before is the program's and stays pending. */
bool output_write(int fd, const void *data, size_t bytes) {
    sigset_t raised, old, pending;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &raised, &old);
    bool done = write_all(fd, data, bytes);
    int error = errno;
    if (!done && (error == EPIPE || error == EFBIG)) {
        int signal = error == EPIPE ? SIGPIPE : SIGXFSZ;
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, signal);
        while (!sigismember(&pending, signal) && sigtimedwait(&ours, NULL, &(struct timespec){0, 0}) < 0 &&
               errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return done;
}

int output_create(const char *path) {
    enum { OWNERS = 0600 };
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, OWNERS);
    if (fd >= 0)
        fchmod(fd, OWNERS); /* the umask may have taken bits */
    return fd;
}

int output_move(int fd) {
    enum { FAR = 700 }; /* below the usual limit of 1024 descriptors */
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FAR);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}
