/* Threads of our own in the program's process. */
#ifndef ULMS_BASE_BACKGROUND_H
#define ULMS_BASE_BACKGROUND_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* All that a thread may block in the program's process: its own faults stay open. */
void background_signals(sigset_t *signals);
/* As pthread_create. The thread never takes a signal that is the program's, and is bound to no processor or policy that
 * the calling thread is bound to. */
int background_start(pthread_t *thread, void *(*run)(void *), void *data);
/* True: the thread has ended. False: the driver, or what it writes to, keeps it until clock_ns() is so much. No place
 * to be cancelled. */
bool background_join(pthread_t thread, uint64_t until_ns);

#endif
