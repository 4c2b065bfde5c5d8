#include "base/background.h"

#include <signal.h>

/* Blocked before the thread is made, so that it never has one open. A fault of the thread's own stays open: blocked,
 * it would end the process past the program's crash reports. */
int background_start(pthread_t *thread, void *(*run)(void *), void *data) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    sigset_t signals, old;
    sigfillset(&signals);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&signals, faults[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &old);
    int error = pthread_create(thread, NULL, run, data);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}
