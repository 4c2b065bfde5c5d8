/* A program that hangs says so, and ends. */
#ifndef PROGRAM_PATIENCE_H
#define PROGRAM_PATIENCE_H

#include <signal.h>
#include <unistd.h>

static inline void hangs(int signal) {
    static const char said[] = "hangs\n";
    (void)signal;
    _exit(write(STDOUT_FILENO, said, sizeof said - 1) > 0 ? 3 : 4);
}

static inline void end_after(unsigned seconds) {
    signal(SIGALRM, hangs);
    alarm(seconds);
}

#endif
