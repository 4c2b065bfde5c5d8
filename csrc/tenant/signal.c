#include "tenant/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "tenant/tenant.h"

static struct sigaction theirs; /* of SIGCONT, while ours is in its place */

static bool is_none(const struct sigaction *a) {
    return !(a->sa_flags & SA_SIGINFO) && (a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN);
}

static void on_continue(int number, siginfo_t *info, void *context) {
    int error = errno;
    struct sigaction next = theirs;
    sigaction(SIGCONT, &next, NULL);
    tenants_suspend(false);
    errno = error;
    if (next.sa_flags & SA_SIGINFO)
        next.sa_sigaction(number, info, context);
    else if (!is_none(&next))
        next.sa_handler(number);
}

/* What handles SIGCONT by now is called behind ours. */
static void on_suspend(int number) {
    int error = errno;
    struct sigaction now;
    (void)number;
    if (sigaction(SIGCONT, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_continue)) {
        theirs = now;
        now.sa_flags |= SA_SIGINFO | (is_none(&theirs) ? SA_RESTART : 0);
        now.sa_sigaction = on_continue;
        sigaction(SIGCONT, &now, NULL);
    }
    tenants_suspend(true);
    errno = error;
}

static void open_it(void) {
    const struct sigaction ours = {.sa_handler = on_suspend, .sa_flags = SA_RESTART};
    struct sigaction now;
    int number = ulms_options.suspend_signal;
    if (!number)
        return;
    bool is_free = sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
    if (!is_free || sigaction(number, &ours, NULL) != 0)
        log_warn("ULMS_SUSPEND_SIGNAL has no effect: the program handles this signal itself");
}

void tenant_signals_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, open_it);
}
