#define _GNU_SOURCE
#include "base/background.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/patience.h"
#include "base/thread.h"

/* As long as a call of exec that fails may take on a busy machine. */
enum { EXEC_NS = 400000000 };
static bool refused; /* so long, and since */

struct start {
    void *(*run)(void *);
    void *data;
};

/* A thread inherits what the thread that started it is bound to: the program's, perhaps one processor with all that
 * waits for us. The kernel leaves out of the mask what the process may not use. Where it refuses, that stays so. */
static void free_myself(void) {
    enum { PROCESSORS = 8192 };
    unsigned char all[PROCESSORS / 8];
    struct sched_param none = {.sched_priority = 0};
    memset(all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, (const cpu_set_t *)(const void *)all);
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &none);
}

static void *begin(void *data) {
    struct start s = *(struct start *)data;
    free(data);
    free_myself();
    return s.run(s.data);
}

/* A fault of the thread's own stays open: blocked, it would end the process past the program's crash reports. The
 * kernel never blocks the last two. */
void background_signals(sigset_t *signals) {
    static const int open[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGKILL, SIGSTOP};
    sigfillset(signals);
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        sigdelset(signals, open[i]);
}

/* Trap: the kernel makes no thread for a process of which another one is inside exec, and that call may yet fail. The
 * same error says that the process may have no more threads: that is waited out once. */
static int create(pthread_t *thread, struct start *s) {
    struct patience patience = {.most_ns = EXEC_NS};
    bool wait = !__atomic_load_n(&refused, __ATOMIC_RELAXED);
    int error;
    while ((error = pthread_create(thread, NULL, begin, s)) == EAGAIN && wait && patience_rest(&patience))
        continue;
    __atomic_store_n(&refused, error == EAGAIN, __ATOMIC_RELAXED);
    return error;
}

/* Blocked before the thread is made, so that it never has one open. */
int background_start(pthread_t *thread, void *(*run)(void *), void *data) {
    struct start *s = malloc(sizeof *s);
    sigset_t signals, old;
    if (!s)
        return ENOMEM;
    *s = (struct start){run, data};
    background_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, &old);
    int error = create(thread, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        free(s);
    return error;
}

/* Looks at once, and then ever less often. Trap: pthread_timedjoin_np goes by a clock that may be set back or on. */
bool background_join(pthread_t thread, uint64_t until_ns) {
    enum { LONGEST_US = 2000 };
    int before;
    bool ended;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    for (long us = 20; !(ended = pthread_tryjoin_np(thread, NULL) == 0) && clock_ns() <= until_ns;) {
        thread_sleep(us);
        us = us + us / 2 < LONGEST_US ? us + us / 2 : LONGEST_US;
    }
    pthread_setcancelstate(before, &before);
    return ended;
}
