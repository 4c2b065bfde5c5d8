#include "tenant/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/output.h"
#include "tenant/tenant.h"

/* Trap: all of it runs in handlers, on any thread. No other handler interrupts one while it holds the lock. */
static struct lock lock;
static struct sigaction theirs;    /* handles SIGCONT, while ours is in its place */
static bool waits;                 /* ours has not run since it was put there */
static unsigned times;             /* that it was put there */
static __thread unsigned calls_it; /* the thread is inside theirs, which ours calls: of that time */

static bool is_none(const struct sigaction *a) {
    return !(a->sa_flags & SA_SIGINFO) && (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN);
}

static sigset_t begin(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    lock_take(&lock);
    return before;
}

static void end(const sigset_t *before) {
    lock_drop(&lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void on_fork(void) {
    lock = (struct lock){0};
}

static void on_continue(int number, siginfo_t *info, void *context);

static bool is_ours(const struct sigaction *a) {
    return a->sa_flags & SA_SIGINFO && a->sa_sigaction == on_continue;
}

/* A handler that the program set meanwhile may call this one, also when this one calls it. */
static void on_continue(int number, siginfo_t *info, void *context) {
    int error = errno;
    sigset_t before = begin();
    struct sigaction next = theirs, now = theirs;
    unsigned nth = times, outer = calls_it;
    sigaction(SIGCONT, NULL, &now);
    bool is_caller = now.sa_sigaction == next.sa_sigaction;
    if (is_ours(&now))
        sigaction(SIGCONT, &next, NULL);
    waits = false;
    tenants_suspend(false);
    end(&before);
    errno = error;
    if (is_none(&next) || is_caller || outer == nth)
        return;
    calls_it = nth;
    if (next.sa_flags & SA_SIGINFO)
        next.sa_sigaction(number, info, context);
    else
        next.sa_handler(number);
    calls_it = outer;
}

/* The present handler of SIGCONT is called behind ours. One that the program sets while it is suspended replaces ours:
 * if that one does not call ours, SIGCONT does not resume until the program is suspended again. */
static void on_suspend(int number) {
    static const char lost[] = "[ulms] WARN: the program set a handler of SIGCONT while ULMS_SUSPEND_SIGNAL had "
                               "suspended it: a SIGCONT may not have resumed it, the next one does\n";
    static bool told;
    int error = errno;
    sigset_t before = begin();
    struct sigaction now;
    bool is_lost = false;
    (void)number;
    if (sigaction(SIGCONT, NULL, &now) == 0 && !is_ours(&now)) {
        is_lost = waits && !told;
        theirs = now;
        now.sa_flags |= SA_SIGINFO | (is_none(&theirs) ? SA_RESTART : 0);
        now.sa_sigaction = on_continue;
        waits = sigaction(SIGCONT, &now, NULL) == 0;
        times++;
    }
    told = told || is_lost;
    tenants_suspend(true);
    end(&before);
    if (is_lost && ulms_options.level >= LOG_WARN) /* log_warn formats, which no handler may */
        output_write(STDERR_FILENO, lost, sizeof lost - 1);
    errno = error;
}

static void open_it(void) {
    const struct sigaction ours = {.sa_handler = on_suspend, .sa_flags = SA_RESTART};
    struct sigaction now;
    int number = ulms_options.suspend_signal;
    if (!number)
        return;
    bool is_free = sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
    pthread_atfork(NULL, NULL, on_fork);
    if (!is_free || sigaction(number, &ours, NULL) != 0)
        log_warn("ULMS_SUSPEND_SIGNAL has no effect: the program handles this signal itself");
}

void tenant_signals_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, open_it);
}
