/* Where a program of ours crashed, if it does: the thread's name and its calls, on standard error. */
#ifndef PROGRAM_CRASH_H
#define PROGRAM_CRASH_H

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CRASH_CALLS = 64 };

static inline void crash_tell(int signal) {
    void *calls[CRASH_CALLS];
    char name[18] = {0};
    prctl(PR_GET_NAME, name);
    name[strlen(name)] = '\n';
    (void)!write(STDERR_FILENO, name, strlen(name));
    backtrace_symbols_fd(calls, backtrace(calls, CRASH_CALLS), STDERR_FILENO);
    raise(signal); /* by default again: SA_RESETHAND */
}

/* Loads what finds the calls meanwhile: a handler must not. */
static inline void crash_tells(void) {
    void *call;
    struct sigaction action = {.sa_handler = crash_tell, .sa_flags = SA_RESETHAND | SA_NODEFER};
    backtrace(&call, 1);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

#endif
