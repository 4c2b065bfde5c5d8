/* What a piece of code says on stderr. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <fcntl.h>
#include <unistd.h>

static int capture_kept = -1, capture_pipe[2];

static void capture_start(void) {
    capture_kept = dup(STDERR_FILENO);
    if (capture_kept < 0 || pipe2(capture_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    dup2(capture_pipe[1], STDERR_FILENO);
}

/* Ends the capture; valid until the next one ends. */
static const char *capture_end(void) {
    static char text[65536];
    dup2(capture_kept, STDERR_FILENO);
    close(capture_pipe[1]);
    ssize_t n = read(capture_pipe[0], text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    close(capture_pipe[0]);
    close(capture_kept);
    return text;
}

#endif
