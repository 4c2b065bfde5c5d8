#include "tenant/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "tenant/tenant.h"

static void on_signal(int number) {
    int error = errno;
    tenants_suspend(number != SIGCONT);
    errno = error;
}

static bool is_free(int number) {
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

static void open_both(void) {
    const struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int number = ulms_options.suspend_signal;
    if (!number)
        return;
    if (is_free(number) && is_free(SIGCONT) && sigaction(SIGCONT, &ours, NULL) == 0 &&
        sigaction(number, &ours, NULL) == 0)
        return;
    log_warn("ULMS_SUSPEND_SIGNAL has no effect: the program handles this signal, or CONT, itself");
}

void tenant_signals_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    run_once(&once, open_both);
}
