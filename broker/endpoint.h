/* The folder and the socket by which a broker is found: one broker a folder. */
#ifndef BROKER_ENDPOINT_H
#define BROKER_ENDPOINT_H

#include <stdbool.h>

/* Makes the folder if it is not there (its parents are), takes its lock and listens. The socket; -1: *taken says that
 * another broker is there, else stderr says what is wrong. `group`: users of that group may connect to a broker of
 * root; NULL: only its own user. */
int endpoint_open(const char *folder, const char *group, bool *taken);
/* The next connection: non-blocking; -1: none waits. One of another user is refused unless there is a group. */
int endpoint_accept(int socket);
/* A program that `pump run` started lives, or a child of it: it has inherited the reading end of the pipe `programs` in
 * the folder, open. */
bool endpoint_is_held(void);
/* Removes the socket; the lock goes with the process. */
void endpoint_close(void);

#endif
