/* Threads of our own in the program's process. */
#ifndef ULMS_BASE_BACKGROUND_H
#define ULMS_BASE_BACKGROUND_H

#include <pthread.h>
#include <signal.h>

/* All that a thread may block in the program's process: its own faults stay open. */
void background_signals(sigset_t *signals);
/* As pthread_create. The thread never takes a signal that is the program's, and is bound to no processor or policy that
 * the calling thread is bound to. */
int background_start(pthread_t *thread, void *(*run)(void *), void *data);

#endif
