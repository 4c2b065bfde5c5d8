/* Threads of our own in the program's process. */
#ifndef ULMS_BASE_BACKGROUND_H
#define ULMS_BASE_BACKGROUND_H

#include <pthread.h>

/* As pthread_create. The thread never takes a signal that is the program's, and is bound to no processor or policy that
 * the calling thread is bound to. */
int background_start(pthread_t *thread, void *(*run)(void *), void *data);

#endif
