/* Signals that suspend the program and resume it. */
#ifndef TENANT_SIGNAL_H
#define TENANT_SIGNAL_H

/* ULMS_SUSPEND_SIGNAL suspends from now on, and SIGCONT resumes; not set, or where the program handles the first:
 * nothing happens, which is told. Any number of times. */
void tenant_signals_open(void);

#endif
